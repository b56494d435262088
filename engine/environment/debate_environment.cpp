#include "environment/debate_environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "environment/argument_score.hpp"
#include "environment/row_fields.hpp"
#include "json/json_text.hpp"

namespace muster::environment {
namespace {

// What the opponent says where a row has no script for them.
constexpr std::array<std::string_view, 3> usual_pros{
    "I say yes. The benefits are plain, and those who would gain most have waited long enough.",
    "What was said against it describes difficulties, not reasons: each of them can be managed.",
    "To refuse is to choose as well, and keeps every harm that we have now."};
constexpr std::array<std::string_view, 3> usual_cons{
    "I say no. The costs are certain, and the benefits are promised by those who do not bear them.",
    "What was said for it assumes that all goes well; nobody has shown that it would.",
    "There are milder ways to the same end, and they have not been tried."};

struct Motion {
  std::string topic;
  bool argues_for = true;  // the model
  std::vector<std::string> key_points;
  std::vector<std::string> opponent;
  std::int64_t rounds = 3;
};

class DebateSession final : public Session {
 public:
  explicit DebateSession(Motion motion) : motion_(std::move(motion)) {
    std::string opening = fmt::format(
        "This is a debate of {} {}. The motion: {}\nYou argue {} it. Each message of yours is one argument.",
        motion_.rounds, motion_.rounds == 1 ? "round" : "rounds", motion_.topic, motion_.argues_for ? "for" : "against");
    // Who argues for the motion speaks first.
    if (!motion_.argues_for) opening += "\nYour opponent begins:\n\n" + opponents_next();
    messages_.push_back({"user", std::move(opening)});
  }

  const std::vector<Message>& messages() const override { return messages_; }

  Step step(const std::string& answer) override {
    arguments_.push_back(answer);
    const ArgumentScore score = score_argument(answer, motion_.topic);
    Step step;
    step.info["argument"] = score.worth();
    step.info["length"] = score.length;
    step.info["evidence"] = score.evidence;
    step.info["reasoning"] = score.reasoning;
    step.info["structure"] = score.structure;
    step.info["relevance"] = score.relevance;
    step.done = std::ssize(arguments_) == motion_.rounds;
    if (step.done)
      step.reward = end_early();
    else
      step.messages.push_back({"user", opponents_next()});
    return step;
  }

  // The arguments count as parts of the debate, which is judged once.
  std::optional<double> end_early() override {
    return worth_of_debate(arguments_, motion_.topic, motion_.key_points);
  }

 private:
  std::string opponents_next() {
    const std::size_t number = said_++;
    if (!motion_.opponent.empty()) return motion_.opponent[number % motion_.opponent.size()];
    return std::string(motion_.argues_for ? usual_cons[number % usual_cons.size()] : usual_pros[number % usual_pros.size()]);
  }

  Motion motion_;
  std::vector<Message> messages_;
  std::vector<std::string> arguments_;
  std::size_t said_ = 0;  // by the opponent
};

class DebateEnvironment final : public Environment {
 public:
  explicit DebateEnvironment(std::int64_t rounds) : rounds_(rounds) {}

  Result<std::unique_ptr<Session>> reset(const std::string& row, std::uint64_t seed) const override {
    const auto parsed = parse_ordered_json_object(row, "the row");
    if (!parsed) return parsed.error();
    const auto topic = text_of(*parsed, {"topic", "prompt", "question"});
    const std::string_view example = R"({"topic": "Cities should ban cars.", "position": "for", "key_points": ["cleaner air"]})";
    if (!topic) return bad_input("it has no text \"topic\"", std::string(example));
    Motion motion{*topic, seed % 2 == 0, texts_of(*parsed, "key_points"), texts_of(*parsed, "opponent"), rounds_};
    if (const auto position = text_of(*parsed, {"position"})) {
      const std::string side = to_lower(*position);
      motion.argues_for = side == "pro" || side == "for";
      if (!motion.argues_for && side != "con" && side != "against")
        return bad_input(fmt::format("its \"position\" is \"{}\"", *position), "for, pro, against or con");
    }
    return std::unique_ptr<Session>(std::make_unique<DebateSession>(std::move(motion)));
  }

 private:
  std::int64_t rounds_;
};

}  // namespace

Result<std::unique_ptr<Environment>> make_debate_environment(const spec::EnvironmentOptions& options) {
  return std::unique_ptr<Environment>(std::make_unique<DebateEnvironment>(std::min(options.rounds, options.turns)));
}

}  // namespace muster::environment

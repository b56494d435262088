#include "job/collect/trajectory.hpp"

namespace muster::job {
namespace {

using Json = nlohmann::ordered_json;

Json observation(const std::vector<environment::Message>& messages, bool done) {
  Json list = Json::array();
  for (const environment::Message& message : messages) list.push_back({{"role", message.role}, {"content", message.content}});
  return {{"messages", std::move(list)}, {"done", done}};
}

Json reward_or_null(const std::optional<double>& reward) { return reward ? Json(*reward) : Json(nullptr); }

}  // namespace

Trajectory::Trajectory(std::unique_ptr<environment::Session> session, std::int64_t row, std::uint64_t seed)
    : session_(std::move(session)), row_(row), seed_(seed) {
  observations_.push_back(observation(session_->messages(), false));
}

Json Trajectory::prompt(bool has_template) const {
  Json messages = Json::array();
  std::string text;
  for (std::size_t turn = 0; turn < observations_.size(); ++turn) {
    for (const Json& message : observations_[turn]["messages"]) {
      messages.push_back(message);
      text += (text.empty() || text.ends_with('\n') ? "" : "\n") + message["content"].get<std::string>();
    }
    if (turn < actions_.size()) {
      messages.push_back(actions_[turn]);
      text += actions_[turn]["content"].get<std::string>();
    } else if (turn > 0) {
      text += "\n";
    }
  }
  return has_template ? Json{{"messages", std::move(messages)}} : Json{{"prompt", std::move(text)}};
}

void Trajectory::answer(const std::string& text, bool is_last) {
  environment::Step step = session_->step(text);
  actions_.push_back({{"role", "assistant"}, {"content", text}});
  infos_.push_back(std::move(step.info));
  rewards_.push_back(step.reward);
  over_ = step.done || is_last;
  if (over_ && !step.done) {
    const auto more = session_->end_early();
    rewards_.back() = step.reward && more ? std::optional(*step.reward + *more) : std::nullopt;
    step.messages.clear();
  }
  observations_.push_back(observation(step.messages, over_));
}

std::optional<double> Trajectory::reward(const spec::EnvironmentOptions& options) const {
  return environment::worth_of(rewards_, options);
}

std::string Trajectory::line(std::int64_t episode, const spec::EnvironmentOptions& options) const {
  Json rewards = Json::array();
  for (const std::optional<double>& reward : rewards_) rewards.push_back({{"value", reward_or_null(reward)}});
  const Json metadata{{"environment", environment::name_of(options.kind)}, {"episode", episode}, {"row", row_}, {"seed", seed_},
                      {"reward", reward_or_null(reward(options))}, {"info", infos_}};
  const Json line{{"observations", observations_}, {"actions", actions_}, {"rewards", std::move(rewards)}, {"metadata", metadata}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster::job

// What sampled answers are worth, by the functions that the settings name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/reward_options.hpp"

namespace muster::reward {

struct Question {
  std::string prompt;
  std::optional<std::string> answer;  // the right one
  std::string row;                    // its row of the data as the text of one JSON object; may be empty
};

struct Answered {
  const Question* question = nullptr;
  std::string completion;
  std::int64_t tokens = 0;  // with the end token
  bool ended = false;       // with its end token
  std::int64_t room = 0;    // the most tokens it could have had
  std::span<const std::int32_t> ids = {};  // of its tokens
};

struct Judged {
  std::optional<double> reward;              // absent: every part is unknown. Never NaN or infinite
  std::vector<std::optional<double>> parts;  // by function, not yet weighted; absent: unknown
};

// One function, for any number of answers at once.
class Part {
 public:
  virtual ~Part() = default;
  // One value for each answer; absent: unknown.
  virtual Result<std::vector<std::optional<double>>> judge(std::span<const Answered> answers) = 0;
  // It computes where the model is trained, so that it cannot judge beside that.
  virtual bool uses_device() const { return false; }
};

// Owns the program that it asks, which ends with it. A program dies with the thread that asks it first: let that be one
// that lives as long.
class Judge {
 public:
  struct Weighted {
    std::string_view name;
    double weight = 1;
    std::unique_ptr<Part> part;
  };
  Judge(const spec::RewardOptions& options, std::vector<Weighted> parts);

  // By function, a value for each answer; absent: it was not asked.
  using Values = std::vector<std::optional<std::vector<std::optional<double>>>>;

  // One for each answer, in their order. known: functions that have judged these answers are not asked again. An Error
  // names the function that failed and what to do; nothing is judged then.
  Result<std::vector<Judged>> judge(std::span<const Answered> answers, Values known = {});
  // Asks the functions that use the device, and no others.
  Result<Values> judge_on_device(std::span<const Answered> answers);
  // As users write the functions: "exact". In the order of Judged::parts.
  std::vector<std::string_view> names() const;

 private:
  Result<std::vector<std::optional<double>>> ask(const Weighted& part, std::span<const Answered> answers) const;
  std::optional<double> combine(const std::vector<std::optional<double>>& parts) const;

  spec::RewardOptions options_;
  std::vector<Weighted> parts_;
};

// What users are told meanwhile: that a program was started again, and why. Empty: to standard error.
using Report = std::function<void(const std::string&)>;

// What a judge says that was told to stop; nobody needs to read it.
inline Error stopped_judging() { return {Error::Kind::failed, "it was told to stop", "none of its answers is used"}; }

// model: the function of that name, which has tensors; needed where the settings name it. stop: ends what judges at the
// next occasion. Refused: settings that contradict each other, an expression that is none. No program is started before
// it is asked.
Result<Judge> make_judge(const spec::RewardOptions& options, Report report = {}, std::unique_ptr<Part> model = nullptr,
                         std::stop_token stop = {});

}  // namespace muster::reward

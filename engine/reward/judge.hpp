// What sampled answers are worth, by the functions that the settings name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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

  // One for each answer, in their order. An Error names the function that failed and what to do; nothing is judged then.
  Result<std::vector<Judged>> judge(std::span<const Answered> answers);
  // As users write the functions: "exact". In the order of Judged::parts.
  std::vector<std::string_view> names() const;

 private:
  std::optional<double> combine(const std::vector<std::optional<double>>& parts) const;

  spec::RewardOptions options_;
  std::vector<Weighted> parts_;
};

// What users are told meanwhile: that a program was started again, and why. Empty: to standard error.
using Report = std::function<void(const std::string&)>;

// model: the function of that name, which has tensors; needed where the settings name it. Refused: settings that contradict
// each other, an expression that is none. No program is started before it is asked.
Result<Judge> make_judge(const spec::RewardOptions& options, Report report = {}, std::unique_ptr<Part> model = nullptr);

}  // namespace muster::reward

// A program of the user's that judges answers over JSON lines: docs/rewards.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "reward/judge.hpp"
#include "spec/reward_options.hpp"
#include "system/coprocess.hpp"

namespace muster::reward {

class ProgramPart final : public Part {
 public:
  ProgramPart(const spec::RewardOptions& options, Report report, std::stop_token stop);

  Result<std::vector<std::optional<double>>> judge(std::span<const Answered> answers) override;

 private:
  using Values = std::vector<std::optional<double>>;
  using Ids = std::map<std::int64_t, std::size_t>;  // that the program still owes an answer, with their places

  // What a program did wrong, after which it is started again.
  struct Fault {
    std::string what;
    std::string remedy;
  };

  Result<void> judge_batch(std::span<const Answered> answers, std::span<std::optional<double>> values);
  Result<std::optional<Fault>> ask(std::span<const Answered> answers, Ids& ids, std::span<std::optional<double>> values);
  std::optional<Fault> take(const std::string& line, Ids& ids, std::span<std::optional<double>> values) const;
  Fault late(std::size_t open, std::size_t asked, bool partly_unread) const;
  Fault gone(std::size_t open, std::size_t asked) const;

  std::vector<std::string> command_;
  std::string name_;  // as it was given
  std::chrono::milliseconds patience_;
  std::int64_t restarts_;
  std::size_t batch_;
  Report report_;
  std::stop_token stop_;
  std::int64_t next_id_ = 0;
  std::optional<Coprocess> program_;
};

}  // namespace muster::reward

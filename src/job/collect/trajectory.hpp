// One episode as it is played, and as the guide's JSON has it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "environment/environment.hpp"

namespace muster::job {

class Trajectory {
 public:
  Trajectory(std::unique_ptr<environment::Session> session, std::int64_t row, std::uint64_t seed);

  // {"messages": […]} for a template; else {"prompt": text}: everything up to the next answer.
  nlohmann::ordered_json prompt(bool has_template) const;
  // is_last: no other answer can follow, as this one was cut.
  void answer(const std::string& text, bool is_last);
  bool is_over() const { return over_; }
  std::int64_t answers() const { return static_cast<std::int64_t>(rewards_.size()); }

  std::optional<double> reward(const spec::EnvironmentOptions& options) const;
  // {"observations": [{"messages", "done"}], "actions": [{"role", "content"}], "rewards": [{"value"}], "metadata"}: one line.
  std::string line(std::int64_t episode, const spec::EnvironmentOptions& options) const;

 private:
  std::unique_ptr<environment::Session> session_;
  std::int64_t row_;
  std::uint64_t seed_;
  nlohmann::ordered_json observations_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json actions_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json infos_ = nlohmann::ordered_json::array();
  std::vector<std::optional<double>> rewards_;
  bool over_ = false;
};

}  // namespace muster::job

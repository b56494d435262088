// A plan for people, for programs, and as a picture.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace muster::cli {

// The question as the user would type it, with changed options: the command of a remedy.
class PlanCommandLine {
 public:
  struct Given {
    std::string option;  // "--dtype"; empty: words without an option
    std::vector<std::string> values;
    std::vector<std::string> keys;  // of the settings it stands for
  };
  // Which settings an option stands for: what is given of them gives way to a changed option.
  using KeysOf = std::function<std::vector<std::string>(const std::string& option)>;
  PlanCommandLine(std::vector<Given> given, KeysOf keys_of) : given_(std::move(given)), keys_of_(std::move(keys_of)) {}
  std::string with(const std::vector<plan::OptionChange>& changes) const;

 private:
  std::vector<Given> given_;
  KeysOf keys_of_;
};

std::string plan_text(const plan::Question& question, const plan::Plan& plan, const PlanCommandLine& command,
                      bool colour);
std::string plan_json(const plan::Question& question, const plan::Plan& plan, const PlanCommandLine& command);
// One bar per GPU, stacked by what fills it, with its limit.
std::string plan_plot(const plan::Question& question, const plan::Plan& plan);

}  // namespace muster::cli

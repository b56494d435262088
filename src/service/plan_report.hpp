// A plan for people, for programs, and as a picture.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace muster::service {

// The question as the user would type it, with changed options: the command of a remedy.
class PlanCommandLine {
 public:
  struct Given {
    std::string option;  // "--dtype"; empty: words without an option
    std::vector<std::string> values;
  };
  explicit PlanCommandLine(std::vector<Given> given) : given_(std::move(given)) {}
  std::string with(const std::vector<plan::OptionChange>& changes) const;

 private:
  std::vector<Given> given_;
};

std::string plan_text(const plan::Question& question, const plan::Plan& plan, const PlanCommandLine& command,
                      bool colour);
std::string plan_json(const plan::Question& question, const plan::Plan& plan, const PlanCommandLine& command);
// One bar per GPU, stacked by what fills it, with its limit.
std::string plan_plot(const plan::Question& question, const plan::Plan& plan);

}  // namespace muster::service

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
    std::string option;               // "--dtype"; empty: words without an option
    std::vector<std::string> values;  // none: a flag
  };
  PlanCommandLine(std::vector<Given> given, plan::Work work);

  // What is given of the settings that a changed option stands for gives way to it.
  std::string with(const std::vector<plan::OptionChange>& changes) const;

 private:
  struct Entry {
    Given given;
    std::vector<std::string> keys;  // of the settings it stands for
  };
  std::vector<Entry> entries_;
  plan::Work work_;
};

std::string plan_text(const plan::Question& question, const plan::Plan& plan, const PlanCommandLine& command,
                      bool colour);
std::string plan_json(const plan::Question& question, const plan::Plan& plan, const PlanCommandLine& command);
// One bar per GPU, stacked by what fills it, with its limit.
std::string plan_plot(const plan::Question& question, const plan::Plan& plan);

}  // namespace muster::service

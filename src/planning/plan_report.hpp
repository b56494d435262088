// A plan for people, for programs, and as a picture.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace muster::planning {

// The question as the user would type it, with changed options: the command of a remedy.
class PlanCommandLine {
 public:
  struct Given {
    std::string option;               // "--dtype"; empty: words without an option
    std::vector<std::string> values;  // none: a flag
  };
  PlanCommandLine(std::vector<Given> given, plan::Work work);

  // Given settings that a changed option stands for give way to it.
  std::string operator()(const std::vector<plan::SettingChange>& changes) const;

 private:
  struct Entry {
    Given given;
    std::vector<std::string> keys;  // of the settings it stands for
  };
  std::vector<Entry> entries_;
  plan::Work work_;
};

// What to type for a remedy that changes these settings.
using RemedyCommand = std::function<std::string(const std::vector<plan::SettingChange>&)>;

std::string plan_text(const plan::Question& question, const plan::Plan& plan, const RemedyCommand& command,
                      bool colour);
std::string plan_json(const plan::Question& question, const plan::Plan& plan, const RemedyCommand& command);
// One bar per GPU, stacked by what fills it, with its limit.
std::string plan_plot(const plan::Question& question, const plan::Plan& plan);

}  // namespace muster::planning

// What the planner would change, as the user of a command types it: with options of the command, or as settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "spec/readers.hpp"

namespace muster::planning {

// One change as it is typed.
struct RemedyWords {
  std::string option;        // "--dtype"; or all of it: "training.batch_size=8"
  std::string value = {};    // of the option; empty where it has none
  bool is_variable = false;  // of the environment: it stands before the command
};

// Nothing if the command cannot make one of the changes; muster plan can make every one.
std::optional<std::vector<RemedyWords>> remedy_words(spec::Command command,
                                                     const std::vector<plan::SettingChange>& changes);

// "muster train … --strategy fsdp distributed.fsdp_cpu_offload=true"; the command must be able to make them all.
std::string remedy_command(spec::Command command, const std::vector<plan::SettingChange>& changes);

// "--dtype bfloat16 (hold the weights in 16 bits)"; nothing where the command cannot make the changes.
std::optional<std::string> remedy_options(spec::Command command, const plan::Remedy& remedy);

// An error of the planner whose remedy begins with an option of muster plan.
Error in_words_of(spec::Command command, Error refusal);

}  // namespace muster::planning

// What the planner would change, as options of muster train.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace muster::job {

// Whether muster train has an option for it.
bool is_said_by_training(const plan::Remedy& remedy);

// "muster train … --strategy fsdp distributed.fsdp_cpu_offload=true"; it must have an option for each change.
std::string training_command(const std::vector<plan::OptionChange>& changes);

// A refusal from the planner whose remedy begins with one of its options.
Error in_words_of_training(Error refusal);

}  // namespace muster::job

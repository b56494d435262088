// What the planner would change, in the words of muster train.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace muster::service {

// Whether muster train can be told so.
bool is_said_by_training(const plan::Remedy& remedy);

// "muster train … --strategy fsdp distributed.fsdp_cpu_offload=true"; the changes are ones that it can be told.
std::string training_command(const std::vector<plan::OptionChange>& changes);

// A refusal of the planner's whose remedy begins with one of its options.
Error in_words_of_training(Error refusal);

}  // namespace muster::service

// The words used to describe a plan, shared by its text, its JSON and its picture.
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.hpp"

namespace muster::planning {

// "weights", "KV cache": as people say it.
std::string_view spoken(plan::Component component);

// "Llama-3.1-70B, 70.6B parameters, inference in bfloat16, 1 sequence of 2048 tokens".
std::string headline(const plan::Question& question, const plan::Plan& plan);

// "GPU 3", "host 1, GPU 3", "CPU".
std::string device_name(const plan::Question& question, const plan::RankPlan& rank);

}  // namespace muster::planning

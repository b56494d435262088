// What muster launch would do, for people and for programs.
#pragma once

#include <string>

#include "job/launch.hpp"

namespace muster::cli {

std::string launch_plan_text(const job::LaunchPlan& plan);
std::string launch_plan_json(const job::LaunchPlan& plan);

}  // namespace muster::cli

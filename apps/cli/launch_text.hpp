// What muster launch would do, for people and for programs.
#pragma once

#include <string>

#include "service/launch.hpp"

namespace muster::cli {

std::string launch_plan_text(const service::LaunchPlan& plan);
std::string launch_plan_json(const service::LaunchPlan& plan);

}  // namespace muster::cli

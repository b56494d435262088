// train/trainer.cpp still says wire::to_json.
#pragma once

#include "json/fields.hpp"

namespace muster::wire {
using muster::to_json;
}

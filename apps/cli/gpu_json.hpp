// The GPUs of a view as JSON (docs/inventory-file.md: what `muster gpus --json` writes, --gpus-from reads).
#pragma once

#include <string>

#include "host/host.hpp"

namespace muster::cli {

std::string gpu_json(const host::HostView& view);

}  // namespace muster::cli

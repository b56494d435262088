// The GPUs of a view as JSON (docs/inventory-file.md: what `muster gpus --json` writes, --gpus-from reads).
#pragma once

#include <string>

#include "service/host.hpp"

namespace muster::cli {

std::string gpu_json(const service::HostView& view);

}  // namespace muster::cli

// nvidia-smi's --query-gpu: chosen facts as comma-separated values, under nvidia-smi's names and units.
#pragma once

#include <string>

#include "base/result.hpp"
#include "host/host.hpp"

namespace muster::cli {

// fields: "index,name,memory.used"; format: "csv", optionally with ",noheader" and ",nounits". All GPUs, one per line.
Result<std::string> query_gpus(const host::HostView& view, const std::string& fields, const std::string& format);

// The known field names, for --help.
std::string query_field_names();

}  // namespace muster::cli

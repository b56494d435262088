// The GPUs of a view as text for people.
#pragma once

#include <string>

#include "host/host.hpp"

namespace muster::cli {

// One line per GPU with memory, load and its holder, below "Available GPUs: N".
std::string gpu_table(const host::HostView& view, bool colour);

// "GPU 0: NAME (T MB total, U MB used (P.P%), Compute a.b)", visible GPUs only, below "Available GPUs: N".
std::string gpu_lines(const host::HostView& view);

// nvidia-smi -L: "GPU 0: NAME (UUID: GPU-…)", all GPUs, with their MIG instances indented below.
std::string gpu_names(const host::HostView& view);

// nvidia-smi's matrix of links between all GPUs.
std::string link_matrix(const host::HostView& view, bool colour);

}  // namespace muster::cli

// GPUs that exist only in a file: they can be listed, planned for and allotted, but nothing can compute on them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "host/host.hpp"

namespace muster::host {

// The file that describes the visible GPUs, where they are not in this machine. Absent where the driver lists them,
// where none is visible, and where the kernel lists every one of them by its UUID: then the file describes this machine.
std::optional<std::filesystem::path> file_of_described_gpus(const HostSources& sources, const HostView& view);

// The message when GPUs of the file are requested by something that would compute on them.
Error refuse_described_gpus(const std::filesystem::path& file);

// "the GPUs of FILE are not in this machine"
std::string described_gpus_words(const std::filesystem::path& file);

}  // namespace muster::host

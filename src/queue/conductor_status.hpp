// What a conductor says about itself, in its lock file: its identity, and what it is waiting for. The file's space is
// reserved when the conductor begins, so that it can be written on a full disk, too.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "system/file_descriptor.hpp"
#include "system/process.hpp"
#include "queue/state_folder.hpp"

namespace muster::queue {

struct ConductorStatus {
  ProcessIdentity process;
  std::string waits_for;  // what failed, and is tried again; empty: nothing
  bool operator==(const ConductorStatus&) const = default;
};
std::string to_text(const ConductorStatus& status);
std::optional<ConductorStatus> parse_conductor_status(std::string_view text);

// lock: the conductor's own, open for writing.
void write_status(const FileDescriptor& lock, const ConductorStatus& status);

// Why nothing makes progress although a conductor runs: it is stopped (SIGSTOP), or waits. With what to do.
std::optional<std::string> conductor_trouble(const StateFolder& folder);

}  // namespace muster::queue

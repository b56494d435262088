// What the kernel reports about a process: its identity, its state, its user and its command line.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace muster {

struct ProcessFacts {
  std::optional<std::string> user;
  std::optional<std::string> command;  // arguments joined by blanks
};

// Nothing if no such process exists, or we may not read proc. proc is a parameter for tests.
std::optional<ProcessFacts> read_process(pid_t pid, const std::filesystem::path& proc = "/proc");

// One process and no other: its number may be used again later, but not with the same start.
struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t start = 0;  // in clock ticks since the machine started
  auto operator<=>(const ProcessIdentity&) const = default;
};
// "4711-123456", and back.
std::string to_string(const ProcessIdentity& identity);
std::optional<ProcessIdentity> parse_identity(std::string_view text);

struct ProcessStatus {
  ProcessIdentity identity;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  bool ended = false;    // dead, not yet waited for
  bool exiting = false;  // exiting: it no longer runs its own code, but may still hold memory and files
};

// Nothing if no such process exists, or we may not read proc.
std::optional<ProcessStatus> read_process_status(pid_t pid, const std::filesystem::path& proc = "/proc");
// From the line of /proc/<pid>/stat; nothing if it is not one.
std::optional<ProcessStatus> parse_process_status(std::string_view line);

// This process's. To be called by a process without threads: reading it means setting it for an instant.
unsigned int current_umask();

// The file of this program, under its current name if it was replaced since it began. An Error if we may not
// read proc.
Result<std::filesystem::path> own_program();

// The login name of a user id, or the number as text.
std::string user_name(uid_t user);

}  // namespace muster

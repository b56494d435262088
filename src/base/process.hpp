// What the kernel tells about a process: its user and its command line.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

namespace muster {

struct ProcessFacts {
  std::optional<std::string> user;
  std::optional<std::string> command;  // arguments joined by blanks
};

// Nothing when no such process exists, or proc is not readable for us. proc is a parameter for tests.
std::optional<ProcessFacts> read_process(pid_t pid, const std::filesystem::path& proc = "/proc");

// The login name of a user id, or the number as text.
std::string user_name(uid_t user);

}  // namespace muster

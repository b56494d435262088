// Programs that nobody trusts, run without root: they see a few read-only folders and an empty /tmp, reach no network and
// no other process, and end at their limits. docs/sandbox.md says what holds where.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "sandbox/limits.hpp"
#include "system/file_descriptor.hpp"

namespace muster::sandbox {

enum class Isolation {
  namespaces,  // a system of files, processes and network of its own
  landlock,    // the host's, with nearly everything refused
};
std::string_view to_string(Isolation isolation);  // "namespaces", "Landlock"

// What this kernel grants to this process, found by trying.
struct Grants {
  Result<void> namespaces;  // an Error says what to enable
  Result<void> landlock;
};
Grants probe();

struct Order {
  std::vector<std::string> command;  // the program by its whole path
  std::string input;                 // what it reads from standard input
  std::vector<FileDescriptor> handed;  // become its descriptors 3, 4, ...; closed here
  std::vector<std::pair<std::string, std::string>> environment;  // beside PATH, HOME, LANG and the like
  std::vector<std::filesystem::path> visible;  // folders it may read, beside /usr, /lib and /bin
  FileDescriptor until;  // once this is readable or closed at its other end, the program is ended
};

class Sandbox {
 public:
  // With the strongest isolation that the kernel grants. Refused, with what to enable, where there is none.
  static Result<Sandbox> open();
  // With this one, or refused.
  static Result<Sandbox> open(Isolation isolation);

  Isolation isolation() const { return isolation_; }

  // Runs a program to its end, or to its limits; nothing of it is left then. May be called from several threads at a time. An
  // Error if it could not be confined or started: then it has not run.
  Result<Outcome> run(Order order, const Limits& limits) const;

 private:
  explicit Sandbox(Isolation isolation) : isolation_(isolation) {}

  Isolation isolation_;
};

}  // namespace muster::sandbox

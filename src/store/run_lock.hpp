// Which process works on a run: a kernel-held lock on the file "lock" in its folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster::store {

// The programs that the holder starts inherit the lock; the kernel releases it when the last of them is dead, however
// it died. So a run that is not locked has no rank left that could write into its folder.
class RunLock {
 public:
  // Refused, with the holder named, if another process still has it when patience has run out.
  static Result<RunLock> take(const std::filesystem::path& run_folder,
                              std::chrono::milliseconds patience = std::chrono::seconds(10));
  // For the programs that inherit it.
  int descriptor() const { return file_.number(); }

 private:
  explicit RunLock(FileDescriptor file) : file_(std::move(file)) {}

  FileDescriptor file_;
};

// Whether any process works on the run, here or, if the file system supports it, on another host.
bool is_locked(const std::filesystem::path& run_folder);
// "process 4711 on host7", as the newest holder wrote it; nothing where it is not known.
std::optional<std::string> holder(const std::filesystem::path& run_folder);

}  // namespace muster::store

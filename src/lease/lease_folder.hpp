// The folder that all users of a machine share, opened once per operation so that it cannot be swapped underneath.
//   <resource>.lock, <resource>+<depth>.lock   one per leased resource (and depth of nesting), never deleted
//   gate/lock                                  held while someone looks, chooses and takes
//   waiting/<sequence>                         one ticket per waiting process
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster::lease {

struct LeaseFolder {
  std::filesystem::path path;
  FileDescriptor locks;  // the folder itself
  FileDescriptor gate;   // a folder of its own, so that the coming and going there wakes no waiter
  FileDescriptor waiting;

  // Creates what is missing, open to all users.
  static Result<LeaseFolder> prepare(const std::filesystem::path& path);
  // Creates nothing; absent when there is no such folder. gate and waiting may be missing.
  static std::optional<LeaseFolder> open_existing(const std::filesystem::path& path);
};

// Names become file names and travel in an environment variable: letters, digits and . _ : - / only.
Result<void> check_resource_name(const std::string& resource);

// "GPU-1.lock", "GPU-1+2.lock": '+' is in no resource name, so that no two resources and depths meet.
std::string lock_file_name(const std::string& resource, int depth);

}  // namespace muster::lease

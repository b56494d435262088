// Wakes a waiter when a lease or a place in the line may have become free.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "system/file_descriptor.hpp"
#include "lease/lease_folder.hpp"

namespace muster::lease {

// Where the kernel has no notifications left (128 processes of one user may have them), wait() looks at the clock
// alone.
class ReleaseWatch {
 public:
  explicit ReleaseWatch(const LeaseFolder& folder) : folder_(folder) {}

  // From now on: the end of one of these tickets; of any ticket or lease when none is named. True when that is new.
  bool look_out_for(const std::vector<std::string>& tickets);

  // True: something was given up, or is about to be (the kernel tells just before it drops the lock). False: time is
  // over, which may be earlier than at_most.
  bool wait(std::chrono::milliseconds at_most) const;

 private:
  bool watch(const std::filesystem::path& path);

  const LeaseFolder& folder_;
  FileDescriptor events_;
  std::vector<int> watches_;
  std::optional<std::vector<std::string>> tickets_;
};

}  // namespace muster::lease

// Tells which files have been written to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "system/file_descriptor.hpp"

namespace muster::launch {

class FileWatch {
 public:
  using Id = std::uint64_t;

  FileWatch();
  // Readable when changed() has something; -1 where the kernel grants no watch at all.
  int descriptor() const { return events_.number(); }
  // False when the kernel grants no watch for this file: it has to be looked at now and then.
  bool add(const std::filesystem::path& file, Id id);
  // Files that were written to. Never blocks; when there is more to tell, the descriptor stays readable.
  std::vector<Id> changed();

 private:
  FileDescriptor events_;
  std::multimap<int, Id> ids_;  // by the kernel's number; a file added twice has one number
};

}  // namespace muster::launch

// The one place where sets are chosen and taken: the process inside sees a table that no other process changes.
#pragma once

#include <chrono>
#include <optional>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "lease/lease_folder.hpp"

namespace muster::lease {

class Gate {
 public:
  // Waits for those inside. Still closed after patience: an Error that names who is in it.
  static Result<Gate> enter(const LeaseFolder& folder, std::chrono::milliseconds patience = std::chrono::seconds(10));
  // For lookers: creates nothing, and is absent when it cannot be had soon.
  static std::optional<Gate> enter_to_look(const LeaseFolder& folder, std::chrono::milliseconds patience);

  Gate(Gate&&) noexcept = default;
  Gate& operator=(Gate&&) = delete;
  ~Gate();  // opens it at once, also where a forked child still has a copy

 private:
  explicit Gate(FileDescriptor lock) : lock_(std::move(lock)) {}
  FileDescriptor lock_;
};

}  // namespace muster::lease

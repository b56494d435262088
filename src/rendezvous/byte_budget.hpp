// How many bytes the parts of a store may hold together.
#pragma once

#include <cstddef>

namespace muster::rendezvous {

class ByteBudget {
 public:
  explicit ByteBudget(std::size_t limit) : limit_(limit) {}

  // False: there is no room, and nothing was taken.
  [[nodiscard]] bool take(std::size_t bytes) {
    if (bytes > limit_ - used_) return false;
    used_ += bytes;
    return true;
  }
  void give_back(std::size_t bytes) { used_ -= bytes; }
  std::size_t used() const { return used_; }

 private:
  std::size_t limit_;
  std::size_t used_ = 0;
};

// What the containers add to an entry, roughly: without it, many empty values would cost nothing.
inline constexpr std::size_t entry_overhead = 64;

}  // namespace muster::rendezvous

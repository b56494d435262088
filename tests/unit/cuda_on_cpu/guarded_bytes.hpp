// Memory that ends where the next byte cannot be touched, as a GPU's ends somewhere: a kernel that reads beyond it ends
// the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace muster::cuda {

// Begins at a multiple of 16 bytes, so that up to 15 bytes behind it are there. Filled with what is no number.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t size = 0) : size_(size) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t held = (size + page - 1) / page * page;
    mapped_ = held + page;
    memory_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    auto* const first = static_cast<std::byte*>(memory_);
    if (mprotect(first + held, page, PROT_NONE) != 0) throw std::bad_alloc();
    data_ = first + held - (size + 15) / 16 * 16;
    std::memset(data_, 0xFF, size);
  }
  GuardedBytes(GuardedBytes&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        mapped_(other.mapped_),
        data_(other.data_),
        size_(other.size_) {}
  GuardedBytes& operator=(GuardedBytes&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~GuardedBytes() {
    if (memory_ != nullptr) munmap(memory_, mapped_);
  }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void* memory_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace muster::cuda

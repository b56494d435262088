// Elements of each type that kernels compute in, as the tests give and read them.
#pragma once

#include <vector>

#include "cuda/scalar.cuh"
#include "guarded_bytes.hpp"

namespace muster::cuda {

template <class T>
class Elements {
 public:
  explicit Elements(std::size_t count) : memory_(count * sizeof(T)) {}
  explicit Elements(const std::vector<float>& values) : Elements(values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) data()[i] = narrow<T>(values[i]);
  }
  Elements(Elements&&) = default;

  Elements copy() const {
    Elements other(memory_.size() / sizeof(T));
    std::memcpy(other.data(), memory_.data(), memory_.size());
    return other;
  }
  T* data() { return reinterpret_cast<T*>(memory_.data()); }
  float operator[](std::size_t at) const { return widen(reinterpret_cast<const T*>(memory_.data())[at]); }

 private:
  GuardedBytes memory_;
};

}  // namespace muster::cuda

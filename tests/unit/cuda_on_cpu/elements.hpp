// Elements of each type that kernels compute in, as the tests give and read them.
#pragma once

#include <vector>

#include "cuda/scalar.cuh"

namespace muster::cuda {

// Aligned as a GPU's memory is.
template <class T>
class Elements {
 public:
  explicit Elements(std::size_t count) : packs_(count * sizeof(T) / sizeof(Pack) + 1, Pack{{~0U, ~0U, ~0U, ~0U}}) {}
  explicit Elements(const std::vector<float>& values) : Elements(values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) data()[i] = narrow<T>(values[i]);
  }

  T* data() { return reinterpret_cast<T*>(packs_.data()); }
  float operator[](std::size_t at) const { return widen(reinterpret_cast<const T*>(packs_.data())[at]); }

 private:
  struct alignas(16) Pack {
    unsigned words[4];
  };
  std::vector<Pack> packs_;
};

}  // namespace muster::cuda

// The frozen parameters of one unit, laid one after another as their device has them: what ranks keep in parts and
// gather. Nothing of it is reduced, stepped or saved.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/torch.hpp"

namespace muster::parallel {

class FrozenBytes {
 public:
  // storages: of the unit's parameters, with or without memory.
  explicit FrozenBytes(std::vector<at::Tensor> storages) : storages_(std::move(storages)) {}

  bool empty() const { return storages_.empty(); }
  // Lays out the storages, which have memory now, and returns one of this many parts: int64, all of one length.
  at::Tensor part(int part, int parts);
  // The storages are views of all parts, one after another, from now on.
  void adopt(const at::Tensor& all) const;
  // The storages have no memory.
  void release() const;

 private:
  struct Place {
    std::int64_t offset = 0;  // in bytes
    std::int64_t bytes = 0;
  };

  std::vector<at::Tensor> storages_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<Place> places_;
};

}  // namespace muster::parallel

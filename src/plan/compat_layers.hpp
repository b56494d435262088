// The largest layer that still has to be placed: room for it is kept free on the first GPU and on the cpu.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/compat_sizes.hpp"

namespace muster::plan {

// A layer is a module without children or of a class that is never split. The original keeps the size of the largest
// one and the list of those that have it; it looks again only when the list has run empty or after a module was split.
// So the size may be stale: layers that were placed along with a tied module stay on the list.
//
// Looking again takes no time that grows with the model: layers are counted by size.
class LargestLayer {
 public:
  // All layers, and the root's own tensors, which count as layers until the first look.
  LargestLayer(const spec::ModelShape& shape, const CompatSizes& sizes);

  Eighths size() const { return size_; }
  void take(Entry entry);       // it will be placed now: off the list; a new look, without it, when the list is empty
  void give_back(Entry entry);  // it waits again
  void remove(Entry entry);     // it was placed with another one
  void look() { look_anew(); }

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  Range layers_below(Entry entry) const;
  void look_anew();

  const spec::ModelShape& shape_;
  std::vector<std::size_t> layers_before_;  // per module: how many layers have a lower number
  std::vector<std::size_t> size_of_;        // per layer: position in sizes_
  std::vector<std::size_t> off_list_;       // per layer: the look since which it is off the list
  std::vector<Eighths> sizes_;              // the different sizes, ascending
  std::vector<std::size_t> waiting_;        // per size: layers that wait
  std::size_t top_ = 0;                     // no larger size has a waiting layer
  std::size_t look_ = 1;
  Eighths size_ = 0;
  std::size_t listed_size_ = 0;  // position in sizes_, or sizes_.size() when only tensors are listed
  std::size_t listed_ = 0;       // layers on the list
  std::vector<Entry> listed_tensors_;
};

}  // namespace muster::plan

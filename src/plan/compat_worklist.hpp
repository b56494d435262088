// Modules and tensors that still have to be placed, in order.
#pragma once

#include <optional>
#include <vector>

#include "plan/compat_sizes.hpp"

namespace muster::plan {

// A linked list over the entries of one model: entries leave it from anywhere, and a module is replaced by its parts
// in its place.
class CompatWorklist {
 public:
  // The root's parameters, children and buffers.
  explicit CompatWorklist(const spec::ModelShape& shape);

  bool empty() const { return next_[end_] == end_; }
  bool holds(Entry entry) const { return held_[number(entry)]; }
  std::optional<Entry> first() const { return after(end_); }
  std::optional<Entry> after(Entry entry) const { return after(number(entry)); }

  Entry take_first();
  void put_first(Entry entry) { link(next_[end_], number(entry)); }
  void remove(Entry entry);
  void replace(Entry module, const std::vector<Entry>& parts);

  // The entry on the list that is a module above this tensor.
  std::optional<Entry> holder_of(spec::TensorId tensor) const;

 private:
  std::optional<Entry> after(std::size_t entry) const;
  void link(std::size_t before, std::size_t entry);

  const spec::ModelShape& shape_;
  std::size_t end_;  // comes before the first and after the last
  std::vector<std::size_t> next_;
  std::vector<std::size_t> previous_;
  std::vector<bool> held_;
};

// The result of splitting a module: its own parameters, then its children. Its own buffers are in no part: in the
// originals, too, they are left without a place.
std::vector<Entry> parts_of(const spec::ModelShape& shape, spec::ModuleId module);

}  // namespace muster::plan

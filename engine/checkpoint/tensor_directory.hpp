// The tensors of an open checkpoint by name.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_source.hpp"

namespace muster::checkpoint {

class TensorDirectory {
 public:
  void add(TensorEntry entry) {
    numbers_.emplace(entry.name, entries_.size());
    entries_.push_back(std::move(entry));
  }
  // A second name of a tensor that was added; without effect where the first is not there.
  void add_name(std::string name, std::string_view of) {
    if (const auto number = find(of)) numbers_.emplace(std::move(name), *number);
  }

  std::span<const TensorEntry> entries() const { return entries_; }
  const TensorEntry& at(std::size_t number) const { return entries_[number]; }
  // In the order of adding.
  std::optional<std::size_t> find(std::string_view name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::vector<TensorEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> numbers_;
};

// For a name that no tensor has.
Error no_such_tensor(std::string_view name);

}  // namespace muster::checkpoint

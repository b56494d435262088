// Results arrive in the order in which they are done, and are written in the order in which they were requested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace muster::job {

class OrderedResults {
 public:
  static constexpr std::size_t entry_bytes = 128;  // roughly what a stored result takes in addition to its lines

  // first: the index of the first one.
  explicit OrderedResults(std::int64_t first = 0) : next_(first) {}

  // Whether this one was still expected: each index counts once.
  bool add(std::int64_t index, std::string lines) {
    if (index < next_ || held_.contains(index)) return false;
    held_bytes_ += lines.size() + entry_bytes;
    held_.emplace(index, std::move(lines));
    return true;
  }

  // Everything that is next in order, joined; empty while the next one is missing.
  std::string take() {
    std::string ready;
    for (auto first = held_.begin(); first != held_.end() && first->first == next_; first = held_.begin()) {
      held_bytes_ -= first->second.size() + entry_bytes;
      ready += first->second;
      held_.erase(first);
      ++next_;
    }
    return ready;
  }

  // The one that all later ones wait for.
  std::int64_t next() const { return next_; }
  // Results that wait for an earlier one, counting entry_bytes for each.
  std::size_t held_bytes() const { return held_bytes_; }

 private:
  std::map<std::int64_t, std::string> held_;
  std::int64_t next_;
  std::size_t held_bytes_ = 0;
};

}  // namespace muster::job

// What the store holds: values by key, and queues of values by key. Knows nothing of clients and of bytes on a wire.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/byte_budget.hpp"
#include "rendezvous/text_map.hpp"

namespace muster::rendezvous {

// Whatever adds to the table returns nothing (or false) when the budget does not allow it, and then changes nothing.
// Views that are returned hold until the next change.
class KeyValueTable {
 public:
  explicit KeyValueTable(ByteBudget& budget) : budget_(budget) {}

  // ---- values ----
  [[nodiscard]] bool set(std::string_view key, std::string_view value);
  [[nodiscard]] bool append(std::string_view key, std::string_view value);
  // Values are counters written in decimal; a missing one is 0. Nothing as well when the value is not a number or the
  // sum none of 64 bits.
  std::optional<std::int64_t> add(std::string_view key, std::int64_t amount);
  // Stores desired where the value is the expected one (a missing key: where nothing is expected). Returns what is
  // there afterwards; for a key that is missing still, the expected value, as torch does.
  std::optional<std::string_view> compare_set(std::string_view key, std::string_view expected,
                                              std::string_view desired);
  std::optional<std::string_view> get(std::string_view key) const;
  bool erase(std::string_view key);
  std::size_t size() const { return values_.size(); }
  const TextMap<std::string>& values() const { return values_; }

  // ---- queues: apart from the values, under names that may be the same ----
  [[nodiscard]] bool push(std::string_view key, std::string_view value);
  std::optional<std::string> pop(std::string_view key);
  std::size_t queue_length(std::string_view key) const;

  // A value or a queue that is not empty: what waiting for a key waits for.
  bool has(std::string_view key) const { return get(key).has_value() || queue_length(key) > 0; }

  void clear();

 private:
  bool take(std::size_t bytes);
  void give_back(std::size_t bytes);
  bool replace(std::string& held, std::string_view value);
  ByteBudget& budget_;
  std::size_t held_ = 0;  // of the budget, by this table
  TextMap<std::string> values_;
  TextMap<std::deque<std::string>> queues_;
};

}  // namespace muster::rendezvous

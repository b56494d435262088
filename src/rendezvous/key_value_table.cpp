#include "rendezvous/key_value_table.hpp"

#include <array>
#include <charconv>

namespace muster::rendezvous {
namespace {

// The number a text begins with, as strtoll reads it: clients see the same counters with torch's server.
std::optional<std::int64_t> leading_number(std::string_view text) {
  const auto start = text.find_first_not_of(" \t\n\v\f\r");
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start);
  if (text.front() == '+') {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{}) return std::nullopt;
  return number;
}

}  // namespace

// A value that shrinks gives its memory back: what is counted is what is held.
bool KeyValueTable::replace(std::string& held, std::string_view value) {
  if (value.size() > held.size()) {
    if (!take(value.size() - held.size())) return false;
  } else {
    give_back(held.size() - value.size());
  }
  if (held.capacity() > 2 * value.size() + entry_overhead)
    held = std::string(value);
  else
    held.assign(value);
  return true;
}

bool KeyValueTable::set(std::string_view key, std::string_view value) {
  if (const auto found = values_.find(key); found != values_.end()) return replace(found->second, value);
  if (!take(key.size() + value.size() + entry_overhead)) return false;
  values_.emplace(key, value);
  return true;
}

bool KeyValueTable::append(std::string_view key, std::string_view value) {
  const auto found = values_.find(key);
  if (found == values_.end()) return set(key, value);
  if (!take(value.size())) return false;
  found->second.append(value);
  return true;
}

std::optional<std::int64_t> KeyValueTable::add(std::string_view key, std::int64_t amount) {
  std::int64_t sum = amount;
  if (const auto value = get(key)) {
    const auto before = leading_number(*value);
    if (!before || __builtin_add_overflow(*before, amount, &sum)) return std::nullopt;
  }
  std::array<char, 24> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), sum).ptr;
  if (!set(key, {text.data(), static_cast<std::size_t>(end - text.data())})) return std::nullopt;
  return sum;
}

std::optional<std::string_view> KeyValueTable::compare_set(std::string_view key, std::string_view expected,
                                                           std::string_view desired) {
  const auto value = get(key);
  if (!value && !expected.empty()) return expected;
  if (value && *value != expected) return value;
  if (!set(key, desired)) return std::nullopt;
  return desired;
}

std::optional<std::string_view> KeyValueTable::get(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

bool KeyValueTable::erase(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  give_back(found->first.size() + found->second.size() + entry_overhead);
  values_.erase(found);
  return true;
}

bool KeyValueTable::push(std::string_view key, std::string_view value) {
  if (!take(key.size() + value.size() + entry_overhead)) return false;
  auto found = queues_.find(key);
  if (found == queues_.end()) found = queues_.emplace(key, std::deque<std::string>()).first;
  found->second.emplace_back(value);
  return true;
}

std::optional<std::string> KeyValueTable::pop(std::string_view key) {
  const auto found = queues_.find(key);
  if (found == queues_.end()) return std::nullopt;
  std::string value = std::move(found->second.front());
  found->second.pop_front();
  give_back(key.size() + value.size() + entry_overhead);
  if (found->second.empty()) queues_.erase(found);
  return value;
}

std::size_t KeyValueTable::queue_length(std::string_view key) const {
  if (queues_.empty()) return 0;
  const auto found = queues_.find(key);
  return found == queues_.end() ? 0 : found->second.size();
}

void KeyValueTable::clear() {
  values_.clear();
  queues_.clear();
  give_back(held_);
}

bool KeyValueTable::take(std::size_t bytes) {
  if (!budget_.take(bytes)) return false;
  held_ += bytes;
  return true;
}

void KeyValueTable::give_back(std::size_t bytes) {
  budget_.give_back(bytes);
  held_ -= bytes;
}

}  // namespace muster::rendezvous

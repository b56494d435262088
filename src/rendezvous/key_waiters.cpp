#include "rendezvous/key_waiters.hpp"

#include <stdexcept>

namespace muster::rendezvous {

// A key is held by the wait and by its line.
std::size_t KeyWaiters::cost_of(const Wait& wait) {
  std::size_t bytes = entry_overhead;
  for (const std::string& key : wait.keys) bytes += 2 * (key.size() + entry_overhead);
  return bytes;
}

bool KeyWaiters::add(ConnectionId connection, std::span<const std::string_view> keys) {
  if (keys.empty() || is_waiting(connection)) throw std::logic_error("a wait for nothing, or a second one");
  Wait wait{next_ticket_++, 0, {keys.begin(), keys.end()}};
  if (!budget_.take(cost_of(wait))) return false;
  for (const std::string& key : wait.keys)
    if (lines_[key].emplace(wait.ticket, connection).second) ++wait.missing;  // a key named twice comes once
  waits_.emplace(connection, std::move(wait));
  return true;
}

void KeyWaiters::remove(ConnectionId connection) {
  const auto wait = waits_.find(connection);
  if (wait == waits_.end()) return;
  for (const std::string& key : wait->second.keys) {
    const auto line = lines_.find(key);
    if (line == lines_.end()) continue;  // it has come
    line->second.erase(wait->second.ticket);
    if (line->second.empty()) lines_.erase(line);
  }
  budget_.give_back(cost_of(wait->second));
  waits_.erase(wait);
}

// True: the wait is over, and forgotten.
bool KeyWaiters::one_less(ConnectionId connection) {
  const auto wait = waits_.find(connection);
  if (--wait->second.missing > 0) return false;
  budget_.give_back(cost_of(wait->second));
  waits_.erase(wait);
  return true;
}

std::vector<ConnectionId> KeyWaiters::key_came(std::string_view key) {
  std::vector<ConnectionId> over;
  if (lines_.empty()) return over;
  const auto line = lines_.find(key);
  if (line == lines_.end()) return over;
  for (const auto& [ticket, connection] : line->second)
    if (one_less(connection)) over.push_back(connection);
  lines_.erase(line);
  return over;
}

std::optional<ConnectionId> KeyWaiters::key_came_for_one(std::string_view key) {
  if (lines_.empty()) return std::nullopt;
  const auto line = lines_.find(key);
  if (line == lines_.end()) return std::nullopt;
  std::optional<ConnectionId> first;
  while (!first && !line->second.empty()) {
    const ConnectionId connection = line->second.begin()->second;
    line->second.erase(line->second.begin());
    if (one_less(connection)) first = connection;
  }
  if (line->second.empty()) lines_.erase(line);
  return first;
}

void KeyWaiters::clear() {
  for (const auto& [connection, wait] : waits_) budget_.give_back(cost_of(wait));
  waits_.clear();
  lines_.clear();
}

}  // namespace muster::rendezvous

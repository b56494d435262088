// Which clients wait for which keys. A wait is over when each of its keys has come once; that a key goes again later
// does not bring the wait back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/byte_budget.hpp"
#include "rendezvous/connection_handler.hpp"
#include "rendezvous/text_map.hpp"

namespace muster::rendezvous {

class KeyWaiters {
 public:
  explicit KeyWaiters(ByteBudget& budget) : budget_(budget) {}

  // connection waits for all of keys, none of which is there; it must not wait already. False: no room in the budget.
  [[nodiscard]] bool add(ConnectionId connection, std::span<const std::string_view> keys);
  bool is_waiting(ConnectionId connection) const { return waits_.contains(connection); }
  void remove(ConnectionId connection);

  // The key has come, for everyone. Returns those whose wait is over by it, in the order they came.
  std::vector<ConnectionId> key_came(std::string_view key);
  // The key has come for one of them: the first whose wait is over by it.
  std::optional<ConnectionId> key_came_for_one(std::string_view key);

  void clear();

 private:
  // A place in the order of coming; the same in every line a wait stands in.
  using Ticket = std::uint64_t;
  struct Wait {
    Ticket ticket = 0;
    std::size_t missing = 0;
    std::vector<std::string> keys;  // as asked for; some may have come since
  };
  using Line = std::map<Ticket, ConnectionId>;

  bool one_less(ConnectionId connection);
  static std::size_t cost_of(const Wait& wait);

  ByteBudget& budget_;
  Ticket next_ticket_ = 0;
  std::unordered_map<ConnectionId, Wait> waits_;
  TextMap<Line> lines_;  // by key; none is empty
};

}  // namespace muster::rendezvous

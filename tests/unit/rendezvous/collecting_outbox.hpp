// An Outbox that keeps what was said, for tests of handlers without sockets.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/connection_handler.hpp"

namespace muster::rendezvous {

class CollectingOutbox final : public Outbox {
 public:
  void send(ConnectionId connection, std::string_view bytes) override { said_[connection].append(bytes); }
  void close(ConnectionId connection) override { closed_.insert(connection); }

  void trust(ConnectionId connection) override { trusted_.insert(connection); }

  bool trusted(ConnectionId connection) const { return trusted_.contains(connection); }
  // What was said to it since the last call.
  std::string take(ConnectionId connection) { return std::exchange(said_[connection], std::string()); }
  void forget(ConnectionId connection) { said_.erase(connection); }
  bool closed(ConnectionId connection) const { return closed_.contains(connection); }

 private:
  std::map<ConnectionId, std::string> said_;
  std::set<ConnectionId> closed_;
  std::set<ConnectionId> trusted_;
};

}  // namespace muster::rendezvous

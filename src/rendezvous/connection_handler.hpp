// The seam between sockets and what is said over them: a ConnectionServer moves bytes, a ConnectionHandler knows what
// they mean. A handler never sees a socket, so that it can be tested, fuzzed and measured without one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::rendezvous {

using Clock = std::chrono::steady_clock;

enum class ConnectionId : std::uint64_t {};

// Where a handler puts what it wants to say. Lives as long as its server; used on the server's thread only.
class Outbox {
 public:
  virtual ~Outbox() = default;
  // Queued in order; a connection that is gone swallows it.
  virtual void send(ConnectionId connection, std::string_view bytes) = 0;
  // After what was queued is out. closed() is called for it later, not from inside.
  virtual void close(ConnectionId connection) = 0;
  // The peer has shown that it belongs here. Until then it has little time and little room.
  virtual void trust(ConnectionId connection) = 0;
};

// Called on the server's thread, one call at a time.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual void opened(ConnectionId connection, const std::string& peer) = 0;
  // Everything received and not yet used, from its beginning. Returns how much of it was used (the rest comes again
  // with what follows), or nothing to have the connection closed as junk.
  virtual std::optional<std::size_t> received(ConnectionId connection, std::string_view bytes) = 0;
  virtual void closed(ConnectionId connection) = 0;
  // Called after every wake-up. Returns when it wants to be called again at the latest.
  virtual std::optional<Clock::time_point> tick(Clock::time_point now) = 0;
};

}  // namespace muster::rendezvous

// One thread that serves connections on a socket that is bound already. The first byte a peer sends decides which
// handler gets the connection: ranks that speak the store's protocol and agents of other hosts come in by one port.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "rendezvous/connection_handler.hpp"

namespace muster::rendezvous {

struct ServerLimits {
  std::size_t connections = 65536;                     // more wait to be accepted
  std::size_t stranger_bytes = 4 * 1024;               // unused, of a connection that is not trusted yet
  std::size_t received_bytes = std::size_t{64} << 20;  // unused, per connection: a longer message is junk
  // Unused, of all connections together: beyond that the one that holds most is dropped.
  std::size_t all_received_bytes = std::size_t{256} << 20;
  std::size_t queued_bytes = std::size_t{256} << 20;  // unsent, per connection: a peer that never reads is dropped
  std::size_t all_queued_bytes = std::size_t{1} << 30;  // unsent, of all connections together: likewise
  // A connection that is not trusted by then is dropped, and so is one that is to be closed and does not read what is
  // left for it.
  std::chrono::milliseconds silence{30000};
};

// Lets this process have as many open files as it may: raises the soft limit to the hard one. Returns the soft limit as
// it was, which is what children should get back: programs that call select() need it.
std::size_t raise_open_file_limit();

class ConnectionServer {
 public:
  // Makes the handler for a first byte, once per byte, or nothing: such connections are junk.
  using MakeHandler = std::function<std::unique_ptr<ConnectionHandler>(char first_byte, Outbox& outbox)>;

  // Whether an accepted connection may speak to the handler of this first byte. Asked once for each connection, on the
  // server's thread; adopted ones are not asked about.
  using Admits = std::function<bool(char first_byte, const FileDescriptor& socket)>;

  // Starts the thread. listener: bound and non-blocking, or none: then only adopted connections are served. admits:
  // empty: everybody.
  static Result<std::unique_ptr<ConnectionServer>> start(FileDescriptor listener, const MakeHandler& make_handler,
                                                         std::string_view first_bytes, ServerLimits limits = {},
                                                         Admits admits = {});
  virtual ~ConnectionServer() = default;  // stops and joins

  // A connected socket of this process (one end of a socketpair), served like an accepted one.
  virtual void adopt(FileDescriptor socket) = 0;

  // Runs work on the server's thread and waits for it: the way to look into a handler from outside. What work throws is
  // thrown here.
  virtual void run(const std::function<void()>& work) = 0;
};

}  // namespace muster::rendezvous

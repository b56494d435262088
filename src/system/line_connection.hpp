// One end of a stream socket over which lines of text go both ways. Polled by its owner; it has no thread and never
// waits.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "system/file_descriptor.hpp"

namespace muster {

struct LineLimits {
  std::size_t longest_line = std::size_t{64} << 20;
  std::size_t most_unsent = std::size_t{256} << 20;  // what the other side has left unread
};

class LineConnection {
 public:
  // socket: connected, blocking or not.
  explicit LineConnection(FileDescriptor socket, LineLimits limits = {});

  int descriptor() const { return socket_.number(); }
  bool wants_to_write() const { return !unsent_.empty(); }

  // line: without its newline, and with none inside. Written as far as the socket takes it, the rest by later calls.
  void send(std::string_view line);
  // The complete lines that arrived since, without their newlines. To be called when the descriptor is ready, either
  // way.
  std::vector<std::string> receive();
  // Why the connection can no longer be used: the other side closed it, it failed, or a limit was exceeded. The lines
  // that arrived before are returned first.
  const std::optional<std::string>& broken() const { return broken_; }

 private:
  void write_unsent();
  void read_what_came();

  FileDescriptor socket_;
  LineLimits limits_;
  std::string received_;      // not yet a whole line
  std::size_t searched_ = 0;  // of it, without a newline
  std::string unsent_;
  std::optional<std::string> broken_;
};

}  // namespace muster

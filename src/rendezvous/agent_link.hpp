// An agent's end of the line to the coordinator: messages out and in, heartbeats, and the notice when the other side is
// gone. Polled by its owner; it has no thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "rendezvous/agent_message.hpp"
#include "rendezvous/connection_handler.hpp"
#include "rendezvous/sealed_channel.hpp"

namespace muster::rendezvous {

class AgentLink {
 public:
  // socket: connected, blocking or not: it is never waited for. Greets at once; the Join, and whatever else is sent,
  // goes out when both sides have shown that they know the secret.
  AgentLink(FileDescriptor socket, const Join& join, std::string secret, Clock::time_point now);

  int descriptor() const { return socket_.number(); }
  bool wants_to_write() const { return !unsent_.empty(); }

  void send(const AgentMessage& message);
  // What has come since; call it when the descriptor is ready (either way) or the deadline has passed. An error when
  // the coordinator is gone: its connection ended, or nothing was heard for too long. What it said before is returned
  // first.
  Result<std::vector<CoordinatorMessage>> receive(Clock::time_point now);
  // When receive() must be called at the latest: to send a heartbeat, or to notice silence.
  Clock::time_point next_deadline() const;

 private:
  void write_unsent();
  void read_what_came(Clock::time_point now);
  std::vector<CoordinatorMessage> take_messages();
  bool take_line(std::string_view line, std::vector<CoordinatorMessage>& messages);
  std::chrono::milliseconds patience() const;
  void keep_alive(Clock::time_point now);

  FileDescriptor socket_;
  SealedChannel channel_;
  std::string received_;  // and not yet a whole line
  std::string unsent_;
  std::vector<std::string> waiting_;  // for the end of the handshake: lines without seals
  Welcome terms_;
  Clock::time_point last_alive_;  // sent
  Clock::time_point last_heard_;
  Clock::time_point last_look_;  // of ours
  bool welcomed_ = false;
  std::optional<std::string> broken_;  // why the connection cannot be used any more
};

}  // namespace muster::rendezvous

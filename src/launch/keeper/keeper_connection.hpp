// The socket between the launcher and the keeper: whole messages in both directions, with descriptors.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster::launch {

struct ReceivedMessage {
  std::string body;
  std::vector<FileDescriptor> descriptors;  // an empty one where this process had no room for it
};

class KeeperConnection {
 public:
  // The most descriptors that travel with one message.
  static constexpr std::size_t most_descriptors = 2;

  // The two ends. Numbers above 2, close-on-exec.
  static Result<std::pair<KeeperConnection, KeeperConnection>> open_pair();
  explicit KeeperConnection(FileDescriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.number(); }
  // No more will come: the other end is gone. What it had sent before has been received.
  bool ended() const { return ended_; }

  // Takes the message for sending. The descriptors stay the caller's, and open until all is sent.
  void queue(const std::string& body, std::vector<int> descriptors = {});
  // Sends what the socket takes without waiting. True when nothing is left to send: all went, or it cannot be sent.
  bool send_some();
  // Waits until all is sent. An Error when it cannot be; that the other end is gone, ended() tells in its turn.
  Result<void> send_all();
  // The messages that are there. Never waits.
  std::vector<ReceivedMessage> receive();
  void close() { FileDescriptor(std::move(socket_)); }

 private:
  struct Outgoing {
    std::string bytes;
    std::vector<int> descriptors;  // go with the first byte
    std::size_t sent = 0;
  };
  ssize_t send_part(const Outgoing& message) const;
  bool receive_part();
  void take_messages(std::vector<ReceivedMessage>& messages);

  FileDescriptor socket_;
  std::deque<Outgoing> outgoing_;
  std::string incoming_;
  std::deque<FileDescriptor> descriptors_;
  bool ended_ = false;
  std::optional<Error> send_failure_;
};

}  // namespace muster::launch

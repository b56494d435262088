// One socket of a ConnectionServer, with what came in and was not used yet and what has to go out.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "system/file_descriptor.hpp"
#include "rendezvous/connection_handler.hpp"

namespace muster::rendezvous {

class Connection {
 public:
  Connection(FileDescriptor socket, ConnectionId id, std::string peer, bool adopted)
      : socket_(std::move(socket)), id_(id), peer_(std::move(peer)), adopted_(adopted) {}

  int descriptor() const { return socket_.number(); }
  const FileDescriptor& socket() const { return socket_; }
  bool adopted() const { return adopted_; }  // an end of a pair within this process
  ConnectionId id() const { return id_; }
  const std::string& peer() const { return peer_; }

  // ---- in ----
  // One read. Everything that is unused, the new bytes included; empty at the end of the connection; nothing when there
  // was nothing to read. scratch is where bytes lie that follow on none, so that an idle connection holds no memory;
  // the view holds until the next read.
  std::optional<std::string_view> read(std::string& scratch);
  // How much of the view read() gave was used; what is left is kept.
  void use(std::string_view view, std::size_t size);
  std::size_t unused() const { return unused_.size(); }
  // Lets go of what was kept.
  void forget_unused() { unused_ = std::string(); }

  // ---- out ----
  void queue(std::string_view bytes);
  std::size_t queued() const { return unsent_.size() - sent_; }
  // Sends what it can. False: the connection is broken.
  bool write();
  // Lets go of what was not sent.
  void forget_unsent() {
    unsent_ = std::string();
    sent_ = 0;
  }

  // ---- what the server notes about it ----
  ConnectionHandler* handler = nullptr;  // none before the first byte
  bool trusted = false;                  // it has shown that it belongs here
  std::size_t counted_in = 0;            // unused bytes and unsent ones, as the server's sums have them
  std::size_t counted_out = 0;
  bool closing = false;                  // nothing more is read or queued; ends when all is out
  bool touched = false;                  // is in the server's list of connections to look after
  std::uint32_t interest = 0;            // what epoll was asked for

 private:
  FileDescriptor socket_;
  ConnectionId id_;
  std::string peer_;
  bool adopted_;
  std::string unused_;
  std::string unsent_;
  std::size_t sent_ = 0;  // of unsent_
};

}  // namespace muster::rendezvous

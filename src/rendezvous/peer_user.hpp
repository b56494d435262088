// Which user of this machine holds the other end of a TCP connection: the kernel knows it for every socket of its own.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

#include "system/file_descriptor.hpp"
#include "system/socket.hpp"

namespace muster::rendezvous {

struct PeerUser {
  enum class Kind {
    elsewhere,  // no process of this machine holds the other end: another machine, or a socket that is closed already
    user,       // a process of this machine
    unknown,    // the kernel does not tell
  };
  Kind kind = Kind::unknown;
  uid_t user = 0;
};

// The two ends of a connection: the other one's own address, and ours.
struct ConnectionEnds {
  SocketAddress other;
  SocketAddress own;
};
// Nothing where it has ended already.
std::optional<ConnectionEnds> ends_of(const FileDescriptor& socket);

// One question to the kernel (NETLINK_SOCK_DIAG, some microseconds); where that is not allowed, a look through
// /proc/net/tcp and tcp6.
PeerUser peer_user(const ConnectionEnds& ends);

// The second way alone. table: the text of /proc/net/tcp or tcp6.
PeerUser find_in_socket_table(std::string_view table, const ConnectionEnds& ends);

}  // namespace muster::rendezvous

// TCP sockets by numeric address: names are resolved once, at the boundary, and addresses are passed on.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster {

// A host as a user writes it, and a port: "10.0.0.1:29500", "[fe80::1]:29500", "node-3", "::1".
struct Endpoint {
  std::string host;                   // a name or an address, without brackets
  std::optional<std::uint16_t> port;  // absent: not written
  bool operator==(const Endpoint&) const = default;
};
Result<Endpoint> parse_endpoint(std::string_view text);
// "10.0.0.1:29500", "[fe80::1]:29500"; without the port if there is none.
std::string to_string(const Endpoint& endpoint);

// A numeric address with its port, as the kernel stores it.
class SocketAddress {
 public:
  SocketAddress(const sockaddr* address, socklen_t size);
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  int family() const { return storage_.ss_family; }
  std::uint16_t port() const;
  // Numeric, without the port; an IPv4 address mapped to IPv6 is shown as IPv4. "local" for the end of a
  // socketpair.
  std::string host() const;
  bool is_loopback() const;
  bool operator==(const SocketAddress& other) const;

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};
std::string to_string(const SocketAddress& address);

// Every address the name stands for, those the system prefers first. An address stands for itself.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port);

// Whether this machine has the address on one of its interfaces (loopback included).
bool is_own_address(const SocketAddress& address);

// A bound and listening socket, close-on-exec and non-blocking. Port 0: the kernel chooses; see local_address(). A
// busy port is refused (Error::Kind::refused) with the port in the words.
Result<FileDescriptor> listen_on(const SocketAddress& address);
// On every interface, both families if the machine has both.
Result<FileDescriptor> listen_everywhere(std::uint16_t port);
SocketAddress local_address(const FileDescriptor& socket);
SocketAddress peer_address(const FileDescriptor& socket);

// Tries the addresses in turn, repeatedly, until one answers, the deadline has passed or stop is requested. The
// socket is close-on-exec, blocking, with TCP_NODELAY.
Result<FileDescriptor> connect_to(const std::vector<SocketAddress>& addresses,
                                  std::chrono::steady_clock::time_point deadline, std::stop_token stop = {});

}  // namespace muster

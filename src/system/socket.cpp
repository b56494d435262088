#include "system/socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <system_error>

#include "base/duration.hpp"
#include "system/files.hpp"
#include "base/text.hpp"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// One address gets this long before the next is tried: a host that swallows packets must not use up the deadline.
constexpr milliseconds longest_attempt(5000);
// Between two rounds over all addresses: short at first, since the other side is often about to start.
constexpr milliseconds first_pause(20);
constexpr milliseconds longest_pause(500);

// The kernel lowers it to its own limit (net.core.somaxconn).
constexpr int backlog = 65535;

// ---- endpoints ----

bool is_address_of_version_6(std::string_view text) {
  in6_addr parsed;
  return ::inet_pton(AF_INET6, std::string(text.substr(0, text.find('%'))).c_str(), &parsed) == 1;
}

Error bad_endpoint(std::string_view text, std::string_view problem) {
  return {Error::Kind::bad_input, fmt::format("\"{}\" is not a host and port: {}", text, problem),
          "write HOST, HOST:PORT or, for an IPv6 address with a port, [ADDRESS]:PORT"};
}

Result<Endpoint> with_port(std::string_view text, std::string_view host, std::string_view port) {
  const bool digits = !port.empty() && port.find_first_not_of("0123456789") == std::string_view::npos;
  const auto number = digits ? parse_number<std::uint16_t>(port) : std::nullopt;
  if (!number) return bad_endpoint(text, fmt::format("the port is \"{}\", not a number from 0 to 65535", port));
  return Endpoint{std::string(host), number};
}

Result<Endpoint> parse_bracketed(std::string_view text) {
  const auto end = text.find(']');
  if (end == std::string_view::npos) return bad_endpoint(text, "the bracket is not closed");
  const std::string_view host = text.substr(1, end - 1);
  const std::string_view rest = text.substr(end + 1);
  if (!is_address_of_version_6(host)) return bad_endpoint(text, "brackets are for IPv6 addresses");
  if (rest.empty()) return Endpoint{std::string(host), std::nullopt};
  if (rest.front() != ':') return bad_endpoint(text, fmt::format("\"{}\" after the bracket", rest));
  return with_port(text, host, rest.substr(1));
}

// ---- addresses ----

const sockaddr_in& version_4(const sockaddr* address) { return *reinterpret_cast<const sockaddr_in*>(address); }
const sockaddr_in6& version_6(const sockaddr* address) { return *reinterpret_cast<const sockaddr_in6*>(address); }

// The same host, whatever the port. A link-local address without its interface matches it on any.
bool same_host(const sockaddr* first, const sockaddr* second) {
  if (first->sa_family != second->sa_family) return false;
  if (first->sa_family == AF_INET) return version_4(first).sin_addr.s_addr == version_4(second).sin_addr.s_addr;
  if (first->sa_family != AF_INET6) return false;
  const auto &one = version_6(first), &other = version_6(second);
  const bool same_scope =
      one.sin6_scope_id == other.sin6_scope_id || one.sin6_scope_id == 0 || other.sin6_scope_id == 0;
  return same_scope && ::memcmp(&one.sin6_addr, &other.sin6_addr, sizeof one.sin6_addr) == 0;
}

// ask: getsockname or getpeername. Nothing if the socket has no such end (any more).
template <class Ask>
std::optional<SocketAddress> ask_address(const FileDescriptor& socket, const Ask& ask) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (ask(socket.number(), reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  return SocketAddress(reinterpret_cast<const sockaddr*>(&storage), std::min<socklen_t>(size, sizeof storage));
}

SocketAddress address_or_throw(const std::optional<SocketAddress>& address) {
  if (!address) throw std::system_error(errno, std::generic_category(), "the address of a socket");
  return *address;
}

// ---- sockets ----

FileDescriptor open_socket(int family) {
  return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Error cannot_listen(const SocketAddress& address) {
  if (errno == EADDRINUSE)
    return {Error::Kind::refused, fmt::format("port {} is in use on {}", address.port(), address.host()),
            "leave --master-port out to get a free one, or choose another port"};
  if (errno == EACCES)
    return {Error::Kind::refused,
            fmt::format("port {} on {} is not open to this user: {}", address.port(), address.host(), system_reason()),
            "choose a port from 1024 on"};
  return {Error::Kind::failed, fmt::format("cannot listen on {}: {}", to_string(address), system_reason()),
          errno == EADDRNOTAVAIL ? "give an address that this host has (ip address)" : ""};
}

void set_option(const FileDescriptor& socket, int level, int option, int value) {
  ::setsockopt(socket.number(), level, option, &value, sizeof value);
}

// both_versions: an IPv6 socket that takes IPv4 connections, too, whatever the machine's default.
Result<FileDescriptor> listen_with(const SocketAddress& address, bool both_versions) {
  FileDescriptor socket = open_socket(address.family());
  if (!socket) return cannot_listen(address);
  // Connections of an earlier run that are still in TIME_WAIT do not block the port; a listener does.
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (both_versions) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.number(), address.address(), address.size()) != 0 || ::listen(socket.number(), backlog) != 0)
    return cannot_listen(address);
  return socket;
}

SocketAddress any_address_of_version_4(std::uint16_t port) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  return {reinterpret_cast<const sockaddr*>(&any), sizeof any};
}

SocketAddress any_address_of_version_6(std::uint16_t port) {
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  return {reinterpret_cast<const sockaddr*>(&any), sizeof any};
}

// Readable once stop is requested.
class StopEvent {
 public:
  explicit StopEvent(const std::stop_token& stop)
      : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), callback_(stop, Notify{event_.number()}) {}
  // Waits for the events of socket (none: only for time). True: the socket is ready.
  bool wait_for(int socket, short events, Clock::time_point until) const {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    std::array<pollfd, 2> waiting{pollfd{socket, events, 0}, pollfd{event_.number(), POLLIN, 0}};
    ::poll(waiting.data(), waiting.size(),
           static_cast<int>(std::clamp(left, milliseconds(0), milliseconds(60000)).count()));
    return waiting[0].revents != 0;
  }

 private:
  struct Notify {
    int event;
    void operator()() const { ::eventfd_write(event, 1); }
  };
  FileDescriptor event_;
  std::stop_callback<Notify> callback_;
};

// A port without a listener may be given to our own end, which then connects to itself.
bool is_connected_to_itself(const FileDescriptor& socket) {
  const auto peer = ask_address(socket, ::getpeername);
  return peer && peer == ask_address(socket, ::getsockname);
}

// A connected socket, or none with errno set.
FileDescriptor connect_once(const SocketAddress& address, Clock::time_point until, const StopEvent& stop) {
  FileDescriptor socket = open_socket(address.family());
  if (!socket) return {};
  if (::connect(socket.number(), address.address(), address.size()) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return {};
    if (!stop.wait_for(socket.number(), POLLOUT, until)) {
      errno = ETIMEDOUT;
      return {};
    }
    int reason = 0;
    socklen_t size = sizeof reason;
    ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &reason, &size);
    errno = reason;
    if (reason != 0) return {};
  }
  if (is_connected_to_itself(socket)) {
    errno = ECONNREFUSED;
    return {};
  }
  ::fcntl(socket.number(), F_SETFL, ::fcntl(socket.number(), F_GETFL) & ~O_NONBLOCK);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text) {
  if (text.empty()) return bad_endpoint(text, "it is empty");
  if (text.find_first_of(" \t\r\n/") != std::string_view::npos)
    return bad_endpoint(text, "a blank or a slash cannot be part of it");
  if (text.front() == '[') return parse_bracketed(text);
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return Endpoint{std::string(text), std::nullopt};
  if (text.find(':', colon + 1) != std::string_view::npos) {
    if (is_address_of_version_6(text)) return Endpoint{std::string(text), std::nullopt};
    return bad_endpoint(text, "more than one colon, and not an IPv6 address");
  }
  if (colon == 0) return bad_endpoint(text, "there is no host before the colon");
  return with_port(text, text.substr(0, colon), text.substr(colon + 1));
}

std::string to_string(const Endpoint& endpoint) {
  if (!endpoint.port) return endpoint.host;
  if (endpoint.host.find(':') == std::string::npos) return fmt::format("{}:{}", endpoint.host, *endpoint.port);
  return fmt::format("[{}]:{}", endpoint.host, *endpoint.port);
}

SocketAddress::SocketAddress(const sockaddr* address, socklen_t size) {
  if (size > sizeof storage_) throw std::logic_error("a socket address that is longer than any");
  if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&version_6(address).sin6_addr)) {
    sockaddr_in inner{};
    inner.sin_family = AF_INET;
    inner.sin_port = version_6(address).sin6_port;
    ::memcpy(&inner.sin_addr, &version_6(address).sin6_addr.s6_addr[12], sizeof inner.sin_addr);
    ::memcpy(&storage_, &inner, sizeof inner);
    size_ = sizeof inner;
    return;
  }
  ::memcpy(&storage_, address, size);
  size_ = size;
}

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(version_4(address()).sin_port);
  if (family() == AF_INET6) return ntohs(version_6(address()).sin6_port);
  return 0;
}

std::string SocketAddress::host() const {
  std::array<char, NI_MAXHOST> text{};
  if (family() != AF_INET && family() != AF_INET6) return "local";
  if (::getnameinfo(address(), size_, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "unknown";
  return text.data();
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) return ntohl(version_4(address()).sin_addr.s_addr) >> 24 == 127;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&version_6(address()).sin6_addr);
}

bool SocketAddress::operator==(const SocketAddress& other) const {
  return port() == other.port() && same_host(address(), other.address());
}

std::string to_string(const SocketAddress& address) {
  if (address.family() != AF_INET && address.family() != AF_INET6) return address.host();
  return to_string(Endpoint{address.host(), address.port()});
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int problem =
      host.empty() ? EAI_NONAME : ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (problem != 0)
    return Error{problem == EAI_AGAIN || problem == EAI_SYSTEM ? Error::Kind::failed : Error::Kind::bad_input,
                 fmt::format("host \"{}\" is not known here: {}", host, ::gai_strerror(problem)),
                 "write its address, or a name that this finds: getent hosts NAME"};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const SocketAddress address(entry->ai_addr, entry->ai_addrlen);
    if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(address);
  }
  return addresses;
}

bool is_own_address(const SocketAddress& address) {
  if (address.is_loopback()) return true;
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(found, ::freeifaddrs);
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next)
    if (entry->ifa_addr != nullptr && same_host(entry->ifa_addr, address.address())) return true;
  return false;
}

Result<FileDescriptor> listen_on(const SocketAddress& address) { return listen_with(address, false); }

Result<FileDescriptor> listen_everywhere(std::uint16_t port) {
  auto both = listen_with(any_address_of_version_6(port), true);
  if (both || both.error().kind == Error::Kind::refused) return both;
  return listen_with(any_address_of_version_4(port), false);  // a machine without IPv6
}

SocketAddress local_address(const FileDescriptor& socket) {
  return address_or_throw(ask_address(socket, ::getsockname));
}
SocketAddress peer_address(const FileDescriptor& socket) {
  return address_or_throw(ask_address(socket, ::getpeername));
}

Result<FileDescriptor> connect_to(const std::vector<SocketAddress>& addresses, Clock::time_point deadline,
                                  std::stop_token stop) {
  if (addresses.empty()) throw std::logic_error("connect_to without an address");
  const Clock::time_point began = Clock::now();
  const StopEvent stop_event(stop);
  int reason = 0;
  for (milliseconds pause = first_pause;; pause = std::min(2 * pause, longest_pause)) {
    for (const SocketAddress& address : addresses) {
      if (stop.stop_requested()) return Error{Error::Kind::failed, "asked to stop before the connection was made", ""};
      if (FileDescriptor socket = connect_once(address, std::min(deadline, Clock::now() + longest_attempt), stop_event))
        return socket;
      reason = errno;
    }
    if (Clock::now() >= deadline) break;
    stop_event.wait_for(-1, 0, std::min(deadline, Clock::now() + pause));
  }
  errno = reason;
  return Error{Error::Kind::failed,
               fmt::format("no connection to {} within {}: {}", to_string(addresses.front()),
                           to_string(std::chrono::ceil<milliseconds>(deadline - began)), system_reason()),
               "check that the other side has been started and that no firewall is between"};
}

}  // namespace muster

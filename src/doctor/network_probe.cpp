#include "doctor/network_probe.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.hpp"
#include "system/file_descriptor.hpp"
#include "system/files.hpp"
#include "system/subprocess.hpp"

namespace muster::doctor {
namespace {

using std::chrono::milliseconds;

std::optional<std::string> failed(std::string_view step) { return fmt::format("{}: {}", step, system_reason()); }

// Whether the socket becomes ready in time; when not, errno says so.
bool is_ready(const FileDescriptor& file, short events, milliseconds limit) {
  pollfd waiting{file.number(), events, 0};
  int answer = 0;
  do answer = ::poll(&waiting, 1, static_cast<int>(limit.count()));
  while (answer < 0 && errno == EINTR);
  if (answer == 0) errno = ETIMEDOUT;
  return answer > 0;
}

const sockaddr* generic(const sockaddr_in& address) { return reinterpret_cast<const sockaddr*>(&address); }

// A socket can be bound to an address exactly when it is one of this machine's.
bool is_local(const addrinfo& address) {
  const FileDescriptor socket(::socket(address.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return socket && ::bind(socket.number(), address.ai_addr, address.ai_addrlen) == 0;
}

void take_line(const std::string& line, NetworkFacts& facts) {
  const auto blank = line.find(' ');
  if (blank == std::string::npos) return;
  const std::string kind = line.substr(0, blank), rest = line.substr(blank + 1);
  if (kind == "failed") {
    facts.resolution_failure = rest;
    return;
  }
  facts.host_addresses.push_back(rest);
  if (kind == "local") facts.local_addresses.push_back(rest);
}

}  // namespace

std::optional<std::string> try_loopback(milliseconds limit) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return failed("cannot open a socket");
  if (::bind(listener.number(), generic(address), sizeof address) != 0)
    return failed("cannot bind a port of 127.0.0.1");
  if (::listen(listener.number(), 1) != 0) return failed("cannot listen on 127.0.0.1");
  socklen_t size = sizeof address;
  if (::getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return failed("the system does not say which port was bound");
  const std::string port = std::to_string(ntohs(address.sin_port));

  const FileDescriptor caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!caller) return failed("cannot open a socket");
  if (::connect(caller.number(), generic(address), sizeof address) != 0 && errno != EINPROGRESS)
    return failed("cannot connect to 127.0.0.1:" + port);
  if (!is_ready(listener, POLLIN, limit)) return failed("no connection arrives at 127.0.0.1:" + port);
  const FileDescriptor called(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!called) return failed("cannot accept at 127.0.0.1:" + port);
  char byte = 'm';
  if (!is_ready(caller, POLLOUT, limit) || ::send(caller.number(), &byte, 1, MSG_NOSIGNAL) != 1)
    return failed("cannot send to 127.0.0.1:" + port);
  byte = 0;
  if (!is_ready(called, POLLIN, limit) || ::recv(called.number(), &byte, 1, 0) != 1)
    return failed("nothing is received at 127.0.0.1:" + port);
  if (byte != 'm') return fmt::format("127.0.0.1:{} received another byte than was sent", port);
  return std::nullopt;
}

std::string look_up(const std::string& host_name) {
  addrinfo request = {};
  request.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host_name.c_str(), nullptr, &request, &found); code != 0)
    return fmt::format("failed {}\n", code == EAI_SYSTEM ? system_reason() : ::gai_strerror(code));
  std::string lines;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0)
      lines += fmt::format("{} {}\n", is_local(*one) ? "local" : "other", text.data());
  }
  ::freeaddrinfo(found);
  return lines;
}

void resolve_host_name(NetworkFacts& facts, milliseconds limit, std::string (*lookup)(const std::string&)) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    facts.resolution_failure = fmt::format("cannot open a pipe: {}", system_reason());
    return;
  }
  FileDescriptor from(ends[0]), to(ends[1]);
  // In a child, because a name service that does not answer cannot be interrupted otherwise.
  const auto work = [&] {
    const std::string lines = lookup(facts.host_name);
    return ::write(to.number(), lines.data(), lines.size()) == std::ssize(lines) ? 0 : 1;
  };
  const auto end = run_in_child(work, limit);
  if (!end || end->exit_code != 0) {
    facts.resolution_failure = end ? "the name service: " + describe(*end, limit) : end.error().what;
    return;
  }
  std::array<char, 65536> text;
  const ssize_t size = ::read(from.number(), text.data(), text.size());
  for (const std::string& line : split({text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))}, '\n'))
    take_line(line, facts);
}

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace muster::doctor

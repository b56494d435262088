#include "system/socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "testing/contains.hpp"

namespace muster {
namespace {

using namespace std::chrono_literals;
using testing::contains;
using Clock = std::chrono::steady_clock;

SocketAddress address(const std::string& host, std::uint16_t port = 0) { return resolve(host, port).value().front(); }

bool has_version_6() {
  const auto listener = listen_on(address("::1"));
  return static_cast<bool>(listener);
}

// The loopback addresses of this machine.
std::vector<std::string> loopbacks() {
  std::vector<std::string> hosts{"127.0.0.1"};
  if (has_version_6()) hosts.emplace_back("::1");
  return hosts;
}

FileDescriptor accept_one(const FileDescriptor& listener) {
  const int flags = ::fcntl(listener.number(), F_GETFL);
  ::fcntl(listener.number(), F_SETFL, flags & ~O_NONBLOCK);
  FileDescriptor accepted(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
  ::fcntl(listener.number(), F_SETFL, flags);
  return accepted;
}

TEST(Endpoint, IsAHostWithOrWithoutAPort) {
  const std::pair<std::string, Endpoint> readings[] = {
      {"node-3", {"node-3", {}}},
      {"node-3:29500", {"node-3", 29500}},
      {"10.0.0.1:0", {"10.0.0.1", 0}},
      {"::1", {"::1", {}}},
      {"[::1]", {"::1", {}}},
      {"[fe80::1]:29500", {"fe80::1", 29500}},
      {"fe80::1%eth0", {"fe80::1%eth0", {}}},
      {"localhost:65535", {"localhost", 65535}},
  };
  for (const auto& [written, meant] : readings) {
    const auto endpoint = parse_endpoint(written);
    ASSERT_TRUE(endpoint) << written;
    EXPECT_EQ(*endpoint, meant) << written;
  }
}

TEST(Endpoint, IsWrittenAsItIsRead) {
  for (const std::string written : {"node-3", "node-3:29500", "::1", "[fe80::1]:29500", "10.0.0.1:1"})
    EXPECT_EQ(to_string(parse_endpoint(written).value()), written);
}

TEST(Endpoint, RefusesWhatIsNone) {
  for (const std::string written :
       {"", ":29500", "host:", "host:port", "host:65536", "host:-1", "host:+1", "host: 1", "a:b:c", "[::1",
        "[::1]29500", "[::1]:", "[host]:1", "[]:1", "a b", "tcp://host:1", "::1:x"}) {
    const auto endpoint = parse_endpoint(written);
    ASSERT_FALSE(endpoint) << written;
    EXPECT_EQ(endpoint.error().kind, Error::Kind::bad_input);
    EXPECT_TRUE(contains(endpoint.error().what, "\"" + written + "\""));
    EXPECT_FALSE(endpoint.error().remedy.empty());
  }
}

TEST(SocketAddress, StandsForItself) {
  for (const std::string host : {"127.0.0.1", "::1", "192.0.2.7", "2001:db8::5"}) {
    const auto found = resolve(host, 29500);
    ASSERT_TRUE(found) << host;
    ASSERT_EQ(found->size(), 1U);
    EXPECT_EQ(found->front().host(), host);
    EXPECT_EQ(found->front().port(), 29500);
  }
  EXPECT_EQ(to_string(address("::1", 80)), "[::1]:80");
  EXPECT_EQ(to_string(address("127.0.0.1", 80)), "127.0.0.1:80");
}

TEST(SocketAddress, IsOfVersion4WhenItOnlyCameInAsVersion6) {
  EXPECT_EQ(address("::ffff:10.1.2.3", 5), address("10.1.2.3", 5));
  EXPECT_EQ(address("::ffff:10.1.2.3", 5).host(), "10.1.2.3");
  EXPECT_TRUE(address("::ffff:127.0.0.1").is_loopback());
}

TEST(SocketAddress, KnowsLoopback) {
  EXPECT_TRUE(address("127.0.0.1").is_loopback());
  EXPECT_TRUE(address("127.8.8.8").is_loopback());
  EXPECT_TRUE(address("::1").is_loopback());
  EXPECT_FALSE(address("128.0.0.1").is_loopback());
  EXPECT_FALSE(address("2001:db8::1").is_loopback());
}

TEST(SocketAddress, DiffersByHostAndByPort) {
  EXPECT_EQ(address("127.0.0.1", 1), address("127.0.0.1", 1));
  EXPECT_FALSE(address("127.0.0.1", 1) == address("127.0.0.1", 2));
  EXPECT_FALSE(address("127.0.0.1", 1) == address("127.0.0.2", 1));
  EXPECT_FALSE(address("::1", 1) == address("127.0.0.1", 1));
}

TEST(Resolve, FindsThisHostByItsUsualName) {
  const auto found = resolve("localhost", 1);
  ASSERT_TRUE(found);
  EXPECT_TRUE(std::ranges::all_of(*found, [](const SocketAddress& one) { return one.is_loopback(); }));
}

TEST(Resolve, NamesAHostThatIsNotKnown) {
  for (const std::string host : {"no-such-host.invalid", ""}) {
    const auto found = resolve(host, 1);
    ASSERT_FALSE(found);
    EXPECT_TRUE(contains(found.error().what, "\"" + host + "\""));
    EXPECT_FALSE(found.error().remedy.empty());
  }
}

TEST(IsOwnAddress, IsTrueForLoopbackAndFalseForADocumentationAddress) {
  EXPECT_TRUE(is_own_address(address("127.0.0.1", 99)));
  EXPECT_TRUE(is_own_address(address("::1")));
  EXPECT_FALSE(is_own_address(address("192.0.2.1")));
  EXPECT_FALSE(is_own_address(address("2001:db8::1")));
}

TEST(Listen, GetsAPortFromTheKernelAndIsReached) {
  for (const std::string& host : loopbacks()) {
    const auto listener = listen_on(address(host));
    ASSERT_TRUE(listener) << host;
    const SocketAddress here = local_address(*listener);
    EXPECT_NE(here.port(), 0);
    EXPECT_EQ(here.host(), host);
    const auto client = connect_to({here}, Clock::now() + 30s);
    ASSERT_TRUE(client);
    const FileDescriptor accepted = accept_one(*listener);
    EXPECT_EQ(peer_address(accepted), local_address(*client));
    EXPECT_EQ(peer_address(*client), here);
  }
}

TEST(Listen, EverywhereIsReachedByBothFamilies) {
  const auto listener = listen_everywhere(0);
  ASSERT_TRUE(listener);
  for (const std::string& host : loopbacks()) {
    const auto client = connect_to({address(host, local_address(*listener).port())}, Clock::now() + 30s);
    ASSERT_TRUE(client) << host;
    EXPECT_EQ(peer_address(accept_one(*listener)).host(), host);
  }
}

TEST(Listen, RefusesABusyPortAndNamesIt) {
  const auto first = listen_on(address("127.0.0.1"));
  ASSERT_TRUE(first);
  const std::uint16_t port = local_address(*first).port();
  const auto same = listen_on(address("127.0.0.1", port));
  const auto everywhere = listen_everywhere(port);
  for (const auto* second : {&same, &everywhere}) {
    ASSERT_FALSE(*second);
    EXPECT_EQ(second->error().kind, Error::Kind::refused);
    EXPECT_TRUE(contains(second->error().what, "port " + std::to_string(port) + " is in use"));
    EXPECT_TRUE(contains(second->error().remedy, "--master-port"));
  }
}

TEST(Listen, TakesThePortOfARunThatHasJustEnded) {
  std::uint16_t port = 0;
  {
    const auto listener = listen_everywhere(0);
    ASSERT_TRUE(listener);
    port = local_address(*listener).port();
    const auto client = connect_to({address("127.0.0.1", port)}, Clock::now() + 30s);
    ASSERT_TRUE(client);
    FileDescriptor(accept_one(*listener));  // closed by this side first: its end stays in TIME_WAIT
    char byte = 0;
    EXPECT_EQ(::read(client->number(), &byte, 1), 0);
  }
  EXPECT_TRUE(listen_everywhere(port));
}

TEST(Listen, RefusesAnAddressOfAnotherHost) {
  const auto listener = listen_on(address("192.0.2.1"));
  ASSERT_FALSE(listener);
  EXPECT_TRUE(contains(listener.error().what, "192.0.2.1"));
  EXPECT_FALSE(listener.error().remedy.empty());
}

TEST(Connect, GivesABlockingSocketThatSendsAtOnceAndIsNotInherited) {
  const auto listener = listen_on(address("127.0.0.1"));
  const auto client = connect_to({local_address(*listener)}, Clock::now() + 30s);
  ASSERT_TRUE(client);
  EXPECT_EQ(::fcntl(client->number(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(client->number(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::fcntl(listener->number(), F_GETFD) & FD_CLOEXEC, 0);
  int no_delay = 0;
  socklen_t size = sizeof no_delay;
  ::getsockopt(client->number(), IPPROTO_TCP, TCP_NODELAY, &no_delay, &size);
  EXPECT_NE(no_delay, 0);
}

// A port of this machine that nobody listens on, and that nobody else gets while it is held.
FileDescriptor bound_but_silent() {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = address("127.0.0.1");
  EXPECT_EQ(::bind(socket.number(), any.address(), any.size()), 0);
  return socket;
}

TEST(Connect, GoesOnToTheNextAddress) {
  const FileDescriptor silent = bound_but_silent();
  const auto listener = listen_on(address("127.0.0.1"));
  const auto client = connect_to({local_address(silent), local_address(*listener)}, Clock::now() + 30s);
  ASSERT_TRUE(client);
  EXPECT_EQ(peer_address(*client), local_address(*listener));
}

TEST(Connect, TriesAgainUntilSomebodyListens) {
  const FileDescriptor silent = bound_but_silent();
  Result<FileDescriptor> client = Error{};
  std::jthread connecting([&] { client = connect_to({local_address(silent)}, Clock::now() + 30s); });
  EXPECT_EQ(::listen(silent.number(), 1), 0);
  connecting.join();
  EXPECT_TRUE(client);
}

TEST(Connect, GivesUpAtTheDeadlineWithTheReason) {
  const FileDescriptor silent = bound_but_silent();
  const auto client = connect_to({local_address(silent)}, Clock::now() + 50ms);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, Error::Kind::failed);
  EXPECT_TRUE(contains(client.error().what, to_string(local_address(silent)), "Connection refused"));
  EXPECT_FALSE(client.error().remedy.empty());
}

TEST(Connect, EndsWhenAskedToStop) {
  const FileDescriptor silent = bound_but_silent();
  Result<FileDescriptor> client = Error{};
  std::jthread connecting(
      [&](const std::stop_token& stop) { client = connect_to({local_address(silent)}, Clock::now() + 1h, stop); });
  connecting.request_stop();
  connecting.join();
  ASSERT_FALSE(client);
  EXPECT_TRUE(contains(client.error().what, "asked to stop"));
}

}  // namespace
}  // namespace muster

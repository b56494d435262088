#include "rendezvous/store_access.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "rendezvous/peer_user.hpp"
#include "testing/contains.hpp"

namespace muster::rendezvous {
namespace {

using testing::contains;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Both ends of a connection over loopback.
struct Pair {
  explicit Pair(const char* address = "127.0.0.1")
      : listener(listen_on(resolve(address, 0).value().front()).value()),
        client(connect_to({local_address(listener)}, Clock::now() + 30s).value()),
        server(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC)) {}
  FileDescriptor listener, client, server;
};

// A connection that a process of another user holds. Only root can act as one.
class OtherUser {
 public:
  explicit OtherUser(const FileDescriptor& listener) {
    const SocketAddress address = local_address(listener);
    child_ = ::fork();
    if (child_ == 0) {
      const bool changed = ::setuid(65534) == 0;
      const int socket = changed ? ::socket(address.family(), SOCK_STREAM, 0) : -1;
      if (::connect(socket, address.address(), address.size()) != 0) ::_exit(1);
      ::pause();
      ::_exit(0);
    }
    server = FileDescriptor(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
    for (int i = 0; !server && i < 3000; ++i) {
      ::usleep(10'000);
      server = FileDescriptor(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
    }
  }
  ~OtherUser() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  FileDescriptor server;

 private:
  pid_t child_ = -1;
};

TEST(PeerUser, KnowsItsOwnProcesses) {
  for (const char* address : {"127.0.0.1", "::1"}) {
    const Pair pair(address);
    const PeerUser found = peer_user(ends_of(pair.server).value());
    EXPECT_EQ(found.kind, PeerUser::Kind::user) << address;
    EXPECT_EQ(found.user, ::geteuid()) << address;
  }
}

TEST(PeerUser, AClosedSocketBelongsToNobody) {
  Pair pair;
  const auto ends = ends_of(pair.server).value();
  pair.client = FileDescriptor();
  EXPECT_EQ(peer_user(ends).kind, PeerUser::Kind::elsewhere);
}

TEST(PeerUser, KnowsTheProcessesOfOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  const FileDescriptor listener = listen_on(resolve("127.0.0.1", 0).value().front()).value();
  const OtherUser other(listener);
  ASSERT_TRUE(other.server);
  const PeerUser found = peer_user(ends_of(other.server).value());
  EXPECT_EQ(found.kind, PeerUser::Kind::user);
  EXPECT_EQ(found.user, 65534u);
}

TEST(PeerUser, FindsConnectionsInTheKernelsTables) {
  const ConnectionEnds ends{resolve("127.0.0.1", 0x1234).value().front(), resolve("127.0.0.1", 0x7530).value().front()};
  const std::string head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n";
  const std::string line = "   1: 0100007F:1234 0100007F:7530 01 00000000:00000000 00:00000000 0  1001 0 77 1 0\n";
  EXPECT_EQ(find_in_socket_table(head + line, ends).user, 1001u);
  EXPECT_EQ(find_in_socket_table(head + line, {ends.own, ends.other}).kind, PeerUser::Kind::elsewhere);
  const std::string mapped =
      "   1: 0000000000000000FFFF00000100007F:1234 0000000000000000FFFF00000100007F:7530 01 0:0 0:0 0  1002 0 78 1 0\n";
  EXPECT_EQ(find_in_socket_table(head + mapped, ends).user, 1002u);
  const std::string closed = "   1: 0100007F:1234 0100007F:7530 04 00000000:00000000 00:00000000 00000000  0 0 0 1 0\n";
  EXPECT_EQ(find_in_socket_table(head + closed, ends).kind, PeerUser::Kind::elsewhere);
}

TEST(StoreAccess, IsOpenToTheUsersOwnProcesses) {
  StoreAccess access({});
  EXPECT_TRUE(access.admits(Pair().server));
}

TEST(StoreAccess, IsClosedToOtherUsersAndSaysSoOnce) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  std::vector<std::string> said;
  StoreAccess access([&](const std::string& text) { said.push_back(text); });
  const FileDescriptor listener = listen_on(resolve("127.0.0.1", 0).value().front()).value();
  for (int i = 0; i < 2; ++i) {
    const OtherUser other(listener);
    ASSERT_TRUE(other.server);
    EXPECT_FALSE(access.admits(other.server));
  }
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(contains(said[0], "user 65534", "--insecure"));
}

// Sent and closed at once: the kernel shows what is left as root's.
TEST(StoreAccess, IsClosedToWhatIsGoneAlready) {
  Pair pair;
  ASSERT_EQ(::send(pair.client.number(), "x", 1, 0), 1);
  pair.client = FileDescriptor();
  StoreAccess access({});
  EXPECT_FALSE(access.admits(pair.server));
  access.member_came("127.0.0.1:1");  // an address of this host proves nothing about its users
  EXPECT_FALSE(access.admits(pair.server));
}

}  // namespace
}  // namespace muster::rendezvous

#include "rendezvous/connection_server.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "system/socket.hpp"

namespace muster::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr auto long_enough = 30s;

// What the handlers of a server saw, to be waited for from the test's thread.
class Record {
 public:
  void note(const std::string& event) {
    const std::scoped_lock lock(mutex_);
    ++events_[event];
    changed_.notify_all();
  }
  ::testing::AssertionResult comes(const std::string& event, int times = 1) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, long_enough, [&] { return events_[event] >= times; }))
      return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << event << " came " << events_[event] << " times";
  }
  int count(const std::string& event) {
    const std::scoped_lock lock(mutex_);
    return events_[event];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> events_;
};

// Lines in, the same lines out behind a prefix. A line with a meaning of its own: see received().
class LineHandler final : public ConnectionHandler {
 public:
  LineHandler(std::string prefix, Outbox& outbox, Record& record)
      : prefix_(std::move(prefix)), outbox_(outbox), record_(record) {}

  void opened(ConnectionId connection, const std::string& peer) override {
    if (trusts) outbox_.trust(connection);
    record_.note(prefix_ + "opened");
    record_.note(prefix_ + "opened by " + peer.substr(0, peer.rfind(':')));
  }
  std::optional<std::size_t> received(ConnectionId connection, std::string_view bytes) override {
    record_.note(prefix_ + "received");
    std::size_t used = 0;
    for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n', used)) {
      const std::string_view line = bytes.substr(used, end + 1 - used);
      used = end + 1;
      if (line.ends_with("junk\n")) return std::nullopt;
      if (line.ends_with("flood\n")) outbox_.send(connection, std::string(1 << 20, 'x'));
      outbox_.send(connection, prefix_);
      outbox_.send(connection, line);
      if (line.ends_with("bye\n")) outbox_.close(connection);
      if (line.ends_with("bye\n")) outbox_.send(connection, "too late");
    }
    return used;
  }
  void closed(ConnectionId connection) override {
    outbox_.send(connection, "nobody hears this");
    record_.note(prefix_ + "closed");
  }
  std::optional<Clock::time_point> tick(Clock::time_point now) override {
    record_.note(prefix_ + "tick");
    if (!tick_at) return std::nullopt;
    if (now < *tick_at) return tick_at;
    tick_at.reset();
    record_.note(prefix_ + "due");
    return std::nullopt;
  }
  std::optional<Clock::time_point> tick_at;
  bool trusts = true;

 private:
  std::string prefix_;
  Outbox& outbox_;
  Record& record_;
};

class Client {
 public:
  explicit Client(FileDescriptor socket) : socket_(std::move(socket)) {
    const timeval longest{long_enough.count(), 0};
    ::setsockopt(socket_.number(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  }
  explicit Client(const SocketAddress& server) : Client(connect_to({server}, Clock::now() + long_enough).value()) {}

  Client& say(std::string_view bytes) {
    EXPECT_EQ(::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    return *this;
  }
  // Exactly that many bytes, or fewer where the connection ends.
  std::string hear(std::size_t size) {
    std::string heard(size, '\0');
    std::size_t at = 0;
    while (at < size) {
      const ssize_t got = ::recv(socket_.number(), heard.data() + at, size - at, 0);
      if (got <= 0) break;
      at += static_cast<std::size_t>(got);
    }
    heard.resize(at);
    return heard;
  }
  std::string ask(const std::string& line) { return say(line).hear(line.size() + 1); }
  // What comes until the connection ends.
  std::string rest() {
    std::string heard;
    for (std::string part = hear(1000); !part.empty(); part = hear(1000)) heard += part;
    return heard;
  }

 private:
  FileDescriptor socket_;
};

struct ConnectionServerTest : ::testing::Test {
  void start(ServerLimits limits = {}, bool listen = true) {
    FileDescriptor listener;
    if (listen) listener = listen_on(resolve("127.0.0.1", 0).value().front()).value();
    if (listen) address = local_address(listener);
    const auto make = [this](char byte, Outbox& outbox) -> std::unique_ptr<ConnectionHandler> {
      if (byte == '?') return nullptr;
      auto handler = std::make_unique<LineHandler>(std::string(1, byte == 'a' ? 'A' : 'B'), outbox, record);
      handlers[byte] = handler.get();
      return handler;
    };
    server = ConnectionServer::start(std::move(listener), make, "ab?", limits).value();
  }
  Client adopt() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    server->adopt(FileDescriptor(ends[0]));
    return Client(FileDescriptor(ends[1]));
  }

  Record record;
  std::optional<SocketAddress> address;
  std::map<char, LineHandler*> handlers;
  std::unique_ptr<ConnectionServer> server;
};

TEST_F(ConnectionServerTest, GivesAConnectionToTheHandlerOfItsFirstByte) {
  start();
  Client first(*address), second(*address);
  EXPECT_EQ(first.ask("a line\n"), "Aa line\n");
  EXPECT_EQ(second.ask("b line\n"), "Bb line\n");
  EXPECT_EQ(first.ask("b, but late\n"), "Ab, but late\n");
  EXPECT_EQ(record.count("Aopened"), 1);
  EXPECT_EQ(record.count("Bopened by 127.0.0.1"), 1);
}

TEST_F(ConnectionServerTest, DropsAConnectionWhoseFirstByteNobodyKnows) {
  start();
  EXPECT_EQ(Client(*address).say("x").rest(), "");
  EXPECT_EQ(Client(*address).say("?").rest(), "");
  EXPECT_EQ(Client(*address).ask("a\n"), "Aa\n");
}

TEST_F(ConnectionServerTest, ShowsWhatIsUnusedAgainWithWhatFollows) {
  start();
  Client client(*address);
  client.say("a be");
  EXPECT_TRUE(record.comes("Areceived"));
  client.say("gin");
  EXPECT_TRUE(record.comes("Areceived", 2));
  EXPECT_EQ(client.say("ning\na second\na th").hear(23), "Aa beginning\nAa second\n");
  EXPECT_EQ(client.say("ird\n").hear(9), "Aa third\n");
}

TEST_F(ConnectionServerTest, CarriesAMessageOfManyReads) {
  start();
  Client client(*address);
  const std::string line = "a" + std::string(5'000'000, 'y') + "\n";
  std::jthread saying([&] { client.say(line); });
  EXPECT_EQ(client.hear(line.size() + 1), "A" + line);
}

TEST_F(ConnectionServerTest, TellsTheHandlerWhenAConnectionEnds) {
  start();
  { EXPECT_EQ(Client(*address).ask("a\n"), "Aa\n"); }
  EXPECT_TRUE(record.comes("Aclosed"));
  EXPECT_EQ(record.count("Bclosed"), 0);
}

TEST_F(ConnectionServerTest, ClosesJunkAndOnlyThat) {
  start();
  Client good(*address), bad(*address);
  EXPECT_EQ(good.ask("a\n"), "Aa\n");
  EXPECT_EQ(bad.say("a\njunk\na\n").rest(), "Aa\n");
  EXPECT_TRUE(record.comes("Aclosed"));
  EXPECT_EQ(good.ask("a\n"), "Aa\n");
}

TEST_F(ConnectionServerTest, ClosesAfterWhatWasQueuedIsOut) {
  start();
  Client client(*address);
  EXPECT_EQ(client.say("a flood\nbye\n").rest().size(), (1U << 20) + 9 + 5);
  EXPECT_TRUE(record.comes("Aclosed"));
}

TEST_F(ConnectionServerTest, DropsAConnectionWhoseMessageIsTooLong) {
  start({.received_bytes = 1000});
  EXPECT_EQ(Client(*address).say("a" + std::string(2000, 'y')).rest(), "");
  EXPECT_TRUE(record.comes("Aclosed"));
}

TEST_F(ConnectionServerTest, DropsAStrangerWhoseFirstMessageIsNotShort) {
  start({.stranger_bytes = 1000});
  server->run([&] { handlers['a']->trusts = false; });
  EXPECT_EQ(Client(*address).say("a" + std::string(2000, 'y')).rest(), "");
  EXPECT_TRUE(record.comes("Aclosed"));
}

TEST_F(ConnectionServerTest, DropsAStrangerThatSpeaksButIsNeverTrusted) {
  start({.silence = 20ms});
  server->run([&] { handlers['a']->trusts = false; });
  Client stranger(*address);
  EXPECT_EQ(stranger.ask("a\n"), "Aa\n");
  EXPECT_EQ(stranger.rest(), "");
  EXPECT_TRUE(record.comes("Aclosed"));
}

TEST_F(ConnectionServerTest, KeepsAllUnfinishedMessagesTogetherWithinTheirBound) {
  start({.received_bytes = 10'000'000, .all_received_bytes = 1'000'000});
  Client small(*address);
  small.say("a small");
  EXPECT_TRUE(record.comes("Areceived"));
  // Each alone is allowed. The one that holds most goes.
  std::vector<Client> greedy;
  for (int i = 0; i < 8; ++i) greedy.emplace_back(*address);
  for (Client& client : greedy) client.say("a" + std::string(200'000, 'y'));
  EXPECT_TRUE(record.comes("Aclosed", 4));
  EXPECT_EQ(small.say(" message\n").hear(17), "Aa small message\n");
}

TEST_F(ConnectionServerTest, KeepsAllUnsentAnswersTogetherWithinTheirBound) {
  start({.all_queued_bytes = std::size_t{16} << 20});
  std::vector<Client> deaf;
  for (int i = 0; i < 8; ++i) deaf.emplace_back(*address);
  for (Client& client : deaf) {
    client.say("a flood\n");
    for (int i = 0; i < 20; ++i) client.say("flood\n");
  }
  EXPECT_TRUE(record.comes("Aclosed"));
  EXPECT_EQ(Client(*address).ask("b\n"), "Bb\n");
}

TEST_F(ConnectionServerTest, AsksWhetherAConnectionMayComeInButNotAboutItsOwn) {
  FileDescriptor listener = listen_on(resolve("127.0.0.1", 0).value().front()).value();
  address = local_address(listener);
  const auto make = [this](char, Outbox& outbox) { return std::make_unique<LineHandler>("A", outbox, record); };
  server = ConnectionServer::start(std::move(listener), make, "ab", {},
                                   [](char first_byte, const FileDescriptor&) { return first_byte == 'b'; })
               .value();
  EXPECT_EQ(Client(*address).say("a\n").rest(), "");
  EXPECT_EQ(record.count("Aopened"), 0);
  EXPECT_EQ(Client(*address).ask("b\n"), "Ab\n");
  EXPECT_EQ(adopt().ask("a\n"), "Aa\n");
}

TEST_F(ConnectionServerTest, DropsAPeerThatNeverReads) {
  start({.queued_bytes = std::size_t{8} << 20});
  Client client(*address);
  client.say("a flood\n");
  for (int i = 0; i < 100; ++i) client.say("flood\n");
  EXPECT_TRUE(record.comes("Aclosed"));
}

TEST_F(ConnectionServerTest, DropsAConnectionThatNeverSpeaksAndKeepsOneThatDid) {
  start({.silence = 20ms});
  Client spoke(*address), silent(*address);
  EXPECT_EQ(spoke.ask("a\n"), "Aa\n");
  EXPECT_EQ(silent.rest(), "");
  EXPECT_EQ(spoke.ask("a\n"), "Aa\n");
}

TEST_F(ConnectionServerTest, DropsAPeerThatDoesNotReadItsFarewell) {
  start({.silence = 20ms});
  Client client(*address);
  client.say("a flood\n");
  for (int i = 0; i < 30; ++i) client.say("flood\n");
  client.say("bye\n");
  EXPECT_TRUE(record.comes("Aclosed"));
}

TEST_F(ConnectionServerTest, LetsTheNextInWhenOneOfTheMostAllowedLeaves) {
  start({.connections = 2});
  Client third_to_be_served = [&] {
    Client first(*address), second(*address);
    EXPECT_EQ(first.ask("a\n"), "Aa\n");
    EXPECT_EQ(second.ask("a\n"), "Aa\n");
    Client third(*address);
    third.say("b\n");
    EXPECT_EQ(first.ask("a\n"), "Aa\n");
    EXPECT_EQ(record.count("Bopened"), 0);
    return third;
  }();
  EXPECT_EQ(third_to_be_served.hear(3), "Bb\n");
}

TEST_F(ConnectionServerTest, ServesOnWhenThereAreNoMoreOpenFiles) {
  start();
  Client before(*address);
  EXPECT_EQ(before.ask("a\n"), "Aa\n");
  std::vector<FileDescriptor> sockets;
  for (int i = 0; i < 3; ++i) sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none_left{static_cast<rlim_t>(sockets.front().number()), limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none_left), 0);
  for (const FileDescriptor& socket : sockets)
    EXPECT_EQ(::connect(socket.number(), address->address(), address->size()), 0);
  Client waiting(std::move(sockets.front()));
  waiting.say("b\n");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(before.ask("a\n"), "Aa\n");
  EXPECT_EQ(record.count("Bopened"), 0);
  // Ticks come with wake-ups: a thread that turned on the full listener would have thousands.
  EXPECT_LT(record.count("Atick"), 1000);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(waiting.hear(3), "Bb\n");
}

TEST_F(ConnectionServerTest, ServesAnAdoptedSocketLikeAnAcceptedOne) {
  start({}, false);
  Client client = adopt();
  EXPECT_EQ(client.ask("b\n"), "Bb\n");
  EXPECT_EQ(record.count("Bopened by local"), 1);
}

TEST_F(ConnectionServerTest, RunsWorkOnItsThreadAndWaitsForIt) {
  start();
  std::thread::id there;
  server->run([&] { server->run([&] { there = std::this_thread::get_id(); }); });
  EXPECT_NE(there, std::thread::id());
  EXPECT_NE(there, std::this_thread::get_id());
  EXPECT_THROW(server->run([] { throw std::runtime_error("from there"); }), std::runtime_error);
}

TEST_F(ConnectionServerTest, TicksWhenAHandlerAskedForIt) {
  start();
  server->run([&] { handlers['b']->tick_at = Clock::now() + 10ms; });
  EXPECT_TRUE(record.comes("Bdue"));
}

TEST_F(ConnectionServerTest, ServesManyConnectionsAtOnce) {
  start();
  std::vector<Client> clients;
  for (int i = 0; i < 400; ++i) clients.emplace_back(*address);
  for (int round = 0; round < 3; ++round) {
    for (Client& client : clients) client.say("a\n");
    for (Client& client : clients) EXPECT_EQ(client.hear(3), "Aa\n");
  }
  clients.clear();
  EXPECT_TRUE(record.comes("Aclosed", 400));
}

TEST_F(ConnectionServerTest, EndsWithConnectionsOpenAndWorkUnderWay) {
  start();
  Client client(*address);
  EXPECT_EQ(client.ask("a\n"), "Aa\n");
  client.say("flood\n");
  server.reset();
  client.rest();
}

TEST(RaiseOpenFileLimit, TellsTheLimitBefore) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(raise_open_file_limit(), before.rlim_cur);
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace muster::rendezvous

#include "rendezvous/store_client.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "rendezvous/connection_server.hpp"
#include "rendezvous/key_value_store.hpp"
#include "testing/contains.hpp"

namespace muster::rendezvous {
namespace {

using namespace std::chrono_literals;
using testing::contains;
using Keys = std::vector<std::string>;

struct StoreClientTest : ::testing::Test {
  StoreClientTest() {
    FileDescriptor listener = listen_on(resolve("127.0.0.1", 0).value().front()).value();
    address = local_address(listener);
    const auto make = [this](char, Outbox& outbox) {
      auto made = KeyValueStore::make(outbox);
      store = made.get();
      return made;
    };
    server = ConnectionServer::start(std::move(listener), make, {&store_first_byte, 1}).value();
  }
  StoreClient connect(std::chrono::milliseconds timeout = 30s) {
    return StoreClient::connect({*address}, timeout).value();
  }

  std::optional<SocketAddress> address;
  KeyValueStore* store = nullptr;
  std::unique_ptr<ConnectionServer> server;
};

TEST_F(StoreClientTest, ReadsWhatAnotherWrote) {
  StoreClient writer = connect(), reader = connect();
  ASSERT_TRUE(writer.set("k", "value"));
  EXPECT_EQ(reader.get("k").value(), "value");
  EXPECT_EQ(reader.compare_set("k", "value", "new").value(), "new");
  EXPECT_EQ(reader.compare_set("k", "value", "newer").value(), "new");
  ASSERT_TRUE(reader.append("k", "er"));
  EXPECT_EQ(reader.get("k").value(), "newer");
  EXPECT_EQ(writer.add("n", 40).value(), 40);
  EXPECT_EQ(reader.add("n", 2).value(), 42);
  EXPECT_TRUE(reader.erase("n").value());
  EXPECT_FALSE(reader.erase("n").value());
  EXPECT_TRUE(reader.ping());
}

TEST_F(StoreClientTest, HandlesManyKeysAtOnce) {
  StoreClient client = connect();
  const std::vector<std::pair<std::string, std::string>> entries{
      {"a", "1"}, {"b", ""}, {"c", std::string(1 << 20, 'x')}};
  ASSERT_TRUE(client.multiple_set(entries));
  EXPECT_EQ(client.multiple_get(Keys{"c", "a", "b"}).value(), (Keys{entries[2].second, "1", ""}));
  EXPECT_TRUE(client.check(Keys{"a", "b"}).value());
  EXPECT_FALSE(client.check(Keys{"a", "z"}).value());
  EXPECT_EQ(client.number_of_keys().value(), 3);
  Keys listed = client.list_keys().value();
  std::ranges::sort(listed);
  EXPECT_EQ(listed, (Keys{"a", "b", "c"}));
}

TEST_F(StoreClientTest, WaitsForAKeyThatIsSetLater) {
  StoreClient waiting = connect(), setting = connect();
  std::jthread setter([&] {
    // Until the wait has arrived, which shows as bytes held.
    for (std::size_t held = 0; held == 0;) server->run([&] { held = store->bytes(); });
    EXPECT_TRUE(setting.set("k", "late"));
  });
  EXPECT_EQ(waiting.get("k").value(), "late");
}

TEST_F(StoreClientTest, GoesOnAfterAWaitThatWasTooLong) {
  StoreClient client = connect();
  const auto waited = client.wait(Keys{"a", "b", "c", "d", "e", "f", "g"}, 10ms);
  ASSERT_FALSE(waited);
  EXPECT_TRUE(contains(waited.error().what, "a, b, c, d, e and 2 more"));
  const auto met = client.barrier("meeting", 2, 10ms);
  ASSERT_FALSE(met);
  EXPECT_TRUE(contains(met.error().what, "2 at the barrier meeting"));
  ASSERT_TRUE(client.set("a", "1"));
  EXPECT_EQ(client.get("a").value(), "1");
}

TEST_F(StoreClientTest, MeetsOthersAtABarrier) {
  std::vector<std::jthread> others;
  for (int i = 0; i < 7; ++i) others.emplace_back([this] { EXPECT_TRUE(connect().barrier("b", 8, 30s)); });
  EXPECT_TRUE(connect().barrier("b", 8, 30s));
}

TEST_F(StoreClientTest, PassesValuesThroughAQueue) {
  StoreClient client = connect();
  EXPECT_EQ(client.queue_pop("q").value(), std::nullopt);
  ASSERT_TRUE(client.queue_push("q", "1"));
  ASSERT_TRUE(client.queue_push("q", ""));
  EXPECT_EQ(client.queue_length("q").value(), 2);
  EXPECT_EQ(client.queue_pop("q").value(), "1");
  EXPECT_EQ(client.queue_pop("q").value(), "");
}

TEST_F(StoreClientTest, CountsTogetherWithManyOthers) {
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < 8; ++i)
      clients.emplace_back([this] {
        StoreClient client = connect();
        for (int j = 0; j < 200; ++j) EXPECT_TRUE(client.add("n", 1));
      });
  }
  EXPECT_EQ(connect().get("n").value(), "1600");
}

TEST_F(StoreClientTest, SaysThatTheStoreRefusedOrIsGone) {
  StoreClient refused = connect(), left = connect();
  ASSERT_TRUE(refused.set("k", "words"));
  const auto sum = refused.add("k", 1);
  ASSERT_FALSE(sum);
  EXPECT_TRUE(contains(sum.error().what, to_string(*address), "closed the connection"));
  EXPECT_EQ(refused.get("k").error(), sum.error());
  server.reset();
  EXPECT_FALSE(left.ping());
  EXPECT_FALSE(left.ping());
}

TEST_F(StoreClientTest, GivesUpOnAServerThatDoesNotAnswer) {
  const auto listener = listen_on(resolve("127.0.0.1", 0).value().front());
  const auto client = StoreClient::connect({local_address(*listener)}, 50ms);
  ASSERT_FALSE(client);
  EXPECT_TRUE(contains(client.error().what, "did not answer within"));
}

}  // namespace
}  // namespace muster::rendezvous

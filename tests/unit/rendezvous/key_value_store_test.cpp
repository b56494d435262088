#include "rendezvous/key_value_store.hpp"

#include <gtest/gtest.h>

#include "store_conversation.hpp"

namespace muster::rendezvous {
namespace {

struct KeyValueStoreTest : ::testing::Test {
  Conversation talk;
  ConnectionId anna = talk.open(), ben = talk.open(), carla = talk.open();
};

TEST_F(KeyValueStoreTest, AnswersWithTheValueOrAnEmptyText) {
  EXPECT_EQ(talk.ask(anna, get("k")), text(""));
  EXPECT_EQ(talk.ask(anna, set("k", "v")), "");
  EXPECT_EQ(talk.ask(ben, get("k")), text("v"));
  EXPECT_EQ(talk.store().size(), 1U);
}

TEST_F(KeyValueStoreTest, AnswersEachRequestOfAPipelineInOrder) {
  const std::string requests =
      bytes_of(set("k", "v")) + bytes_of(get("k")) + bytes_of(add("n", 4)) + bytes_of(check({"k", "n"})) +
      bytes_of(check({"k", "m"})) + bytes_of({.command = StoreCommand::ping, .number = 0x01020304}) +
      bytes_of({.command = StoreCommand::delete_key, .key = "k"}) +
      bytes_of({.command = StoreCommand::delete_key, .key = "k"}) + bytes_of(plain(StoreCommand::number_of_keys));
  EXPECT_EQ(talk.raw(anna, requests), requests.size());
  EXPECT_EQ(talk.heard(anna),
            text("v") + number(4) + ready + not_ready + "\4\3\2\1" + number(1) + number(0) + number(1));
}

TEST_F(KeyValueStoreTest, WaitsForTheRestOfARequest) {
  const std::string request = bytes_of(set("key", "value"));
  for (std::size_t size = 1; size < request.size(); ++size) EXPECT_EQ(talk.raw(anna, request.substr(0, size)), 0U);
  EXPECT_EQ(talk.store().size(), 0U);
  EXPECT_EQ(talk.raw(anna, request + request.substr(0, 3)), request.size());
  EXPECT_EQ(talk.ask(ben, get("key")), text("value"));
}

TEST_F(KeyValueStoreTest, ComparesAppendsAndHandlesManyAtOnce) {
  const auto compare = [](std::string_view expected, std::string_view desired) {
    return StoreRequest{.command = StoreCommand::compare_set, .key = "k", .value = expected, .desired = desired};
  };
  EXPECT_EQ(talk.ask(anna, compare("x", "1")), text("x"));
  EXPECT_EQ(talk.ask(anna, compare("", "1")), text("1"));
  EXPECT_EQ(talk.ask(anna, compare("2", "3")), text("1"));
  EXPECT_EQ(talk.ask(anna, {.command = StoreCommand::append, .key = "k", .value = "23"}), "");
  EXPECT_EQ(talk.ask(anna, {.command = StoreCommand::multiple_set, .keys = {"a", "b"}, .values = {"A", "B"}}), "");
  EXPECT_EQ(talk.ask(ben, {.command = StoreCommand::multiple_get, .keys = {"b", "missing", "k"}}),
            text("B") + text("") + text("123"));
  const std::string listed = talk.ask(ben, plain(StoreCommand::list_keys));
  EXPECT_EQ(listed.size(), number(3).size() + 3 * text("k").size());
  EXPECT_TRUE(listed.starts_with(number(3)));
}

TEST_F(KeyValueStoreTest, WakesAWaiterWhenTheLastKeyIsSet) {
  EXPECT_EQ(talk.ask(anna, wait({"a", "b", "c"})), "");
  EXPECT_EQ(talk.ask(ben, set("b", "")), "");
  EXPECT_EQ(talk.ask(ben, add("c", 1)), number(1));
  EXPECT_EQ(talk.heard(anna), "");
  EXPECT_EQ(talk.ask(carla, {.command = StoreCommand::append, .key = "a", .value = "x"}), "");
  EXPECT_EQ(talk.heard(anna), over);
  EXPECT_EQ(talk.ask(ben, set("a", "again")), "");
  EXPECT_EQ(talk.heard(anna), "");
}

TEST_F(KeyValueStoreTest, EveryWayOfWritingWakes) {
  const StoreRequest writes[] = {
      set("k", "1"),
      add("k", 1),
      {.command = StoreCommand::append, .key = "k", .value = "1"},
      {.command = StoreCommand::compare_set, .key = "k", .desired = "1"},
      {.command = StoreCommand::multiple_set, .keys = {"other", "k"}, .values = {"", "1"}},
      push("k", "1"),
      barrier("k", 1),
  };
  for (const StoreRequest& write : writes) {
    Conversation fresh;
    const ConnectionId waiter = fresh.open(), writer = fresh.open();
    EXPECT_EQ(fresh.ask(waiter, wait({"k"})), "");
    fresh.ask(writer, write);
    EXPECT_EQ(fresh.heard(waiter), over) << static_cast<int>(write.command);
  }
}

TEST_F(KeyValueStoreTest, DoesNotWakeForAComparisonThatStoresNothing) {
  EXPECT_EQ(talk.ask(anna, wait({"k"})), "");
  EXPECT_EQ(talk.ask(ben, {.command = StoreCommand::compare_set, .key = "k", .value = "x", .desired = "y"}), text("x"));
  EXPECT_EQ(talk.heard(anna), "");
}

TEST_F(KeyValueStoreTest, EndsAWaitAtOnceWhenAllKeysAreThere) {
  talk.ask(anna, set("a", ""));
  talk.ask(anna, push("q", "x"));
  EXPECT_EQ(talk.ask(ben, wait({"a", "q"})), over);
  EXPECT_EQ(talk.ask(ben, check({"a", "q"})), ready);
  EXPECT_EQ(talk.ask(ben, wait({})), over);
}

TEST_F(KeyValueStoreTest, WakesTheOneThatSetsTheKeyItWaitsForInTheOrderOfItsRequests) {
  const std::string requests =
      bytes_of(add("n", 1)) + bytes_of(wait({"k"})) + bytes_of(add("k", 5)) + bytes_of(get("k"));
  EXPECT_EQ(talk.raw(anna, requests), requests.size());
  EXPECT_EQ(talk.heard(anna), number(1) + over + number(5) + text("5"));
}

TEST_F(KeyValueStoreTest, ForgetsAWaitThatIsCancelled) {
  EXPECT_EQ(talk.ask(anna, wait({"k"})), "");
  EXPECT_EQ(talk.ask(anna, plain(StoreCommand::cancel_wait)), cancelled);
  talk.ask(ben, set("k", ""));
  EXPECT_EQ(talk.heard(anna), "");
  EXPECT_EQ(talk.ask(anna, plain(StoreCommand::cancel_wait)), cancelled);
}

TEST_F(KeyValueStoreTest, LeavesNoWaitOfAClosedConnectionBehind) {
  const auto before = talk.store().bytes();
  talk.ask(anna, wait({"k"}));
  talk.ask(ben, barrier("b", 2));
  talk.close(anna);
  talk.close(ben);
  talk.ask(carla, set("k", ""));
  EXPECT_EQ(talk.ask(carla, barrier("b", 2)), over);
  EXPECT_EQ(talk.heard(anna), "");
  EXPECT_EQ(talk.heard(ben), "");
  talk.ask(carla, {.command = StoreCommand::delete_key, .key = "k"});
  talk.ask(carla, {.command = StoreCommand::delete_key, .key = "b"});
  EXPECT_EQ(talk.store().bytes(), before);
}

TEST_F(KeyValueStoreTest, RefusesASecondPendingWait) {
  EXPECT_EQ(talk.ask(anna, wait({"k"})), "");
  EXPECT_EQ(talk.ask(anna, wait({"m"})), "refused");
  EXPECT_EQ(talk.ask(ben, wait({"k"})), "");
  EXPECT_EQ(talk.ask(ben, barrier("b", 2)), "refused");
  EXPECT_EQ(talk.ask(carla, get("b")), text(""));
}

TEST_F(KeyValueStoreTest, PopsWithTheLengthBefore) {
  EXPECT_EQ(talk.ask(anna, pop("q")), number(0));
  talk.ask(anna, push("q", "1"));
  talk.ask(ben, push("q", "2"));
  EXPECT_EQ(talk.ask(anna, {.command = StoreCommand::queue_length, .key = "q"}), number(2));
  EXPECT_EQ(talk.ask(anna, pop("q")), number(2) + text("1"));
  EXPECT_EQ(talk.ask(ben, pop("q")), number(1) + text("2"));
  EXPECT_EQ(talk.ask(ben, plain(StoreCommand::number_of_keys)), number(0));
}

TEST_F(KeyValueStoreTest, WakesOneWaiterForEachValuePushed) {
  talk.ask(anna, wait({"q"}));
  talk.ask(ben, wait({"q"}));
  talk.ask(carla, push("q", "1"));
  EXPECT_EQ(talk.heard(anna), over);
  EXPECT_EQ(talk.heard(ben), "");
  talk.ask(carla, push("q", "2"));
  EXPECT_EQ(talk.heard(anna), "");
  EXPECT_EQ(talk.heard(ben), over);
  EXPECT_EQ(talk.ask(anna, pop("q")), number(2) + text("1"));
  EXPECT_EQ(talk.ask(ben, pop("q")), number(1) + text("2"));
}

TEST_F(KeyValueStoreTest, WakesTheNextWhenTheOneWokenForAQueueIsGone) {
  talk.ask(anna, wait({"q"}));
  talk.ask(ben, wait({"q"}));
  talk.ask(carla, push("q", "1"));
  talk.close(anna);
  EXPECT_EQ(talk.heard(ben), over);
  EXPECT_EQ(talk.ask(ben, pop("q")), number(1) + text("1"));
}

TEST_F(KeyValueStoreTest, WakesTheNextWhenTheOneWokenForAQueueHadGivenUp) {
  talk.ask(anna, wait({"q"}));
  talk.ask(ben, wait({"q"}));
  talk.ask(carla, push("q", "1"));
  EXPECT_EQ(talk.ask(anna, plain(StoreCommand::cancel_wait)), over + cancelled);
  EXPECT_EQ(talk.heard(ben), over);
}

TEST_F(KeyValueStoreTest, LetsAllThroughABarrierWithTheLast) {
  EXPECT_EQ(talk.ask(anna, barrier("b", 3)), "");
  EXPECT_EQ(talk.ask(ben, barrier("b", 3)), "");
  EXPECT_EQ(talk.heard(anna), "");
  EXPECT_EQ(talk.ask(carla, barrier("b", 3)), over);
  EXPECT_EQ(talk.heard(anna), over);
  EXPECT_EQ(talk.heard(ben), over);
  EXPECT_EQ(talk.ask(anna, get("b")), text("3"));
}

TEST_F(KeyValueStoreTest, ShowsTheCounterOfABarrierAsAKey) {
  EXPECT_EQ(talk.ask(carla, wait({"b"})), "");
  EXPECT_EQ(talk.ask(anna, barrier("b", 2)), "");
  EXPECT_EQ(talk.heard(carla), over);
  EXPECT_EQ(talk.ask(carla, get("b")), text("1"));
  EXPECT_EQ(talk.heard(anna), "");
}

TEST_F(KeyValueStoreTest, RefusesToCountWithWordsAndKeepsServingTheOthers) {
  talk.ask(anna, set("k", "words"));
  EXPECT_EQ(talk.ask(anna, add("k", 1)), "refused");
  EXPECT_EQ(talk.ask(ben, barrier("k", 1)), "refused");
  EXPECT_EQ(talk.ask(carla, get("k")), text("words"));
}

TEST_F(KeyValueStoreTest, TakesNothingFromAClientWithoutTheMagicNumber) {
  EXPECT_EQ(talk.raw(talk.open_unvalidated(), bytes_of(set("k", "v"))), std::nullopt);
  EXPECT_EQ(talk.raw(talk.open_unvalidated(), bytes_of({.command = StoreCommand::validate, .number = 1})),
            std::nullopt);
  EXPECT_EQ(talk.ask(anna, validation()), "refused");
  EXPECT_EQ(talk.store().size(), 0U);
}

TEST_F(KeyValueStoreTest, AnswersWhatCameBeforeJunk) {
  EXPECT_EQ(talk.raw(anna, bytes_of(add("n", 1)) + "\x7F"), std::nullopt);
  EXPECT_EQ(talk.heard(anna), number(1));
}

TEST_F(KeyValueStoreTest, RefusesWhatWouldExceedItsBytes) {
  Conversation small({.total_bytes = 1000});
  const ConnectionId first = small.open(), second = small.open();
  EXPECT_EQ(small.ask(first, set("a", std::string(400, 'x'))), "");
  EXPECT_EQ(small.ask(first, set("b", std::string(600, 'x'))), "refused");
  EXPECT_EQ(small.ask(second, wait({std::string(400, 'k')})), "refused");
  EXPECT_LE(small.store().bytes(), 1000U);
  EXPECT_EQ(small.store().size(), 1U);
}

TEST_F(KeyValueStoreTest, RefusesARequestWhoseReplyWouldBeImmense) {
  Conversation small({.reply_bytes = 10'000});
  const ConnectionId client = small.open();
  EXPECT_EQ(small.ask(client, set("k", std::string(600, 'x'))), "");
  EXPECT_EQ(small.ask(client, {.command = StoreCommand::multiple_get, .keys = {10, "k"}}).size(), 6080U);
  EXPECT_EQ(small.ask(client, {.command = StoreCommand::multiple_get, .keys = {100, "k"}}), "refused");
}

TEST_F(KeyValueStoreTest, BeginsARoundEmptyWithTheSameConnections) {
  talk.ask(anna, set("k", "v"));
  talk.ask(anna, push("q", "v"));
  talk.ask(ben, wait({"m"}));
  talk.ask(carla, barrier("b", 2));
  talk.store().clear();
  EXPECT_EQ(talk.store().size(), 0U);
  EXPECT_EQ(talk.store().bytes(), 0U);
  EXPECT_EQ(talk.ask(anna, get("k")), text(""));
  EXPECT_EQ(talk.ask(anna, pop("q")), number(0));
  talk.ask(anna, set("m", ""));
  EXPECT_EQ(talk.heard(ben), "");
  EXPECT_EQ(talk.ask(carla, barrier("b", 1)), over);
}

}  // namespace
}  // namespace muster::rendezvous

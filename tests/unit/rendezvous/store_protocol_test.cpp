#include "rendezvous/store_protocol.hpp"

#include <gtest/gtest.h>

#include "rendezvous/key_value_store.hpp"
#include "store_conversation.hpp"

namespace muster::rendezvous {
namespace {

using Outcome = Decoding::Outcome;

std::vector<StoreRequest> one_of_each() {
  std::vector<StoreRequest> requests;
  for (std::size_t command = 0; command < store_command_count; ++command)
    requests.push_back(
        {static_cast<StoreCommand>(command), "key", "value", "desired", -7, 9, {"a", "", "ccc"}, {"1", "2", ""}});
  return requests;
}

TEST(StoreProtocol, IsLittleEndianWithLengthsOf64Bits) {
  EXPECT_EQ(bytes_of(validation()), std::string("\0\xCE\xF7\x85\x3C", 5));
  EXPECT_EQ(bytes_of(set("ab", "c")), std::string("\1\2\0\0\0\0\0\0\0ab\1\0\0\0\0\0\0\0c", 20));
  EXPECT_EQ(bytes_of(add("k", -2)), std::string("\4\1\0\0\0\0\0\0\0k\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 18));
  EXPECT_EQ(bytes_of(wait({"k"})), std::string("\6\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0k", 18));
  EXPECT_EQ(bytes_of(plain(StoreCommand::list_keys)), "\x11");
}

TEST(StoreProtocol, ReadsBackWhatItWrites) {
  for (const StoreRequest& request : one_of_each()) {
    const std::string bytes = bytes_of(request);
    const std::string with_next = bytes + "the next request";
    StoreRequest read;
    const Decoding decoding = decode(with_next, {}, read);
    EXPECT_EQ(decoding.outcome, Outcome::complete);
    EXPECT_EQ(decoding.size, bytes.size());
    EXPECT_EQ(bytes_of(read), bytes) << static_cast<int>(request.command);
  }
}

TEST(StoreProtocol, AsksForMoreOfEveryPartOfARequestButNeverForMoreThanItIs) {
  for (const StoreRequest& request : one_of_each()) {
    const std::string bytes = bytes_of(request);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      StoreRequest read;
      const Decoding decoding = decode(std::string_view(bytes).substr(0, size), {}, read);
      EXPECT_EQ(decoding.outcome, Outcome::incomplete) << static_cast<int>(request.command) << " at " << size;
      EXPECT_GT(decoding.size, size);
      EXPECT_LE(decoding.size, bytes.size());
    }
  }
}

TEST(StoreProtocol, RefusesAnUnknownCommand) {
  StoreRequest read;
  EXPECT_EQ(decode("\x13", {}, read).outcome, Outcome::malformed);
  EXPECT_EQ(decode("\xFF", {}, read).outcome, Outcome::malformed);
}

TEST(StoreProtocol, RefusesLengthsBeyondTheLimitsBeforeTheBytesAreThere) {
  const StoreLimits limits{.key_bytes = 4, .value_bytes = 6, .keys_per_request = 2};
  const auto outcome = [&](const StoreRequest& request) {
    StoreRequest read;
    return decode(bytes_of(request), limits, read).outcome;
  };
  EXPECT_EQ(outcome(set("1234", "123456")), Outcome::complete);
  EXPECT_EQ(outcome(set("12345", "")), Outcome::malformed);
  EXPECT_EQ(outcome(set("", "1234567")), Outcome::malformed);
  EXPECT_EQ(outcome({.command = StoreCommand::compare_set, .desired = "1234567"}), Outcome::malformed);
  EXPECT_EQ(outcome(wait({"a", "b"})), Outcome::complete);
  EXPECT_EQ(outcome(wait({"a", "b", "c"})), Outcome::malformed);
  EXPECT_EQ(outcome(wait({"a", "12345"})), Outcome::malformed);

  StoreRequest read;
  std::string huge("\3");
  append_number(huge, std::int64_t{-1});
  EXPECT_EQ(decode(huge, {}, read).outcome, Outcome::malformed);
}

TEST(StoreProtocol, ReadsALongListThatTricklesInOnlyAFewTimes) {
  const std::vector<std::string_view> keys(1000, "a key");
  const std::string bytes = bytes_of(wait(keys));
  StoreRequest read;
  std::size_t tries = 0;
  for (std::size_t size = 0; size < bytes.size();) {
    const Decoding decoding = decode(std::string_view(bytes).substr(0, size), {}, read);
    ASSERT_EQ(decoding.outcome, Outcome::incomplete);
    size = decoding.size;
    ++tries;
  }
  EXPECT_LT(tries, 100U);
}

}  // namespace
}  // namespace muster::rendezvous

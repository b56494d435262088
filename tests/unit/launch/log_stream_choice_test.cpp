#include <gtest/gtest.h>

#include "launch/log_folder.hpp"
#include "testing/contains.hpp"

namespace muster::launch {
namespace {

using testing::contains;

constexpr Streams none{false, false}, output{true, false}, errors{false, true}, both{true, true};

TEST(StreamChoice, IsNothingUnlessTold) {
  EXPECT_EQ(StreamChoice().of(0), none);
  EXPECT_EQ(StreamChoice().of(7), none);
}

TEST(StreamChoice, HoldsForEveryRankWhenOneDigitIsGiven) {
  const std::pair<const char*, Streams> cases[] = {{"0", none}, {"1", output}, {"2", errors}, {"3", both}};
  for (const auto& [text, streams] : cases) {
    const auto choice = StreamChoice::parse(text);
    ASSERT_TRUE(choice) << text;
    EXPECT_EQ(choice->of(0), streams) << text;
    EXPECT_EQ(choice->of(123), streams) << text;
  }
}

TEST(StreamChoice, LeavesRanksAloneThatAreNotNamed) {
  const auto choice = StreamChoice::parse("0:3,1:1,12:2,1000:0");
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->of(0), both);
  EXPECT_EQ(choice->of(1), output);
  EXPECT_EQ(choice->of(12), errors);
  EXPECT_EQ(choice->of(1000), none);
  EXPECT_EQ(choice->of(2), none);
}

TEST(StreamChoice, SaysWhatWasSeenAndWhatIsAccepted) {
  const std::pair<const char*, const char*> cases[] = {
      {"4", "\"4\" does not choose streams"},
      {"", "not one of 0, 1, 2 and 3"},
      {"3 ", "not one of 0, 1, 2 and 3"},
      {"0:4", "\"4\" is not one of"},
      {"0:", "\"\" is not one of"},
      {"x:1", "\"x\" is not a local rank"},
      {"+1:1", "\"+1\" is not a local rank"},
      {"-1:1", "\"-1\" is not a local rank"},
      {":1", "\"\" is not a local rank"},
      {"99999999999999999999:1", "is not a local rank"},
      {"0:1,", "\"\" is not rank:streams"},
      {"0:1,2", "\"2\" is not rank:streams"},
      {"0:1,0:2", "local rank 0 stands there twice"},
  };
  for (const auto& [text, words] : cases) {
    const auto choice = StreamChoice::parse(text);
    ASSERT_FALSE(choice) << text;
    EXPECT_EQ(choice.error().kind, Error::Kind::bad_input);
    EXPECT_TRUE(contains(choice.error().what, words));
    EXPECT_TRUE(contains(choice.error().remedy, "3 (both)", "0:3,1:1"));
  }
}

}  // namespace
}  // namespace muster::launch

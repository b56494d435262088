#include "base/duration.hpp"

#include <gtest/gtest.h>

namespace muster {
namespace {

using std::chrono::milliseconds;

TEST(Duration, ReadsTheUnitsPeopleWrite) {
  EXPECT_EQ(parse_duration("30s").value(), milliseconds(30'000));
  EXPECT_EQ(parse_duration("5m").value(), milliseconds(300'000));
  EXPECT_EQ(parse_duration("2h").value(), milliseconds(7'200'000));
  EXPECT_EQ(parse_duration("500ms").value(), milliseconds(500));
  EXPECT_EQ(parse_duration("90").value(), milliseconds(90'000));
  EXPECT_EQ(parse_duration("0.5s").value(), milliseconds(500));
  EXPECT_EQ(parse_duration("0s").value(), milliseconds(0));
}

TEST(Duration, RefusesWhatIsNoSpan) {
  for (const char* text : {"", "s", "-1s", "5 weeks", "1e9d", "99999999999999d", "1h30m"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(Duration, PrintsTwoUnitsAtMost) {
  EXPECT_EQ(to_string(milliseconds(12'400)), "12 s");
  EXPECT_EQ(to_string(milliseconds(180'000)), "3 min");
  EXPECT_EQ(to_string(milliseconds(7'500'000)), "2 h 5 min");
  EXPECT_EQ(to_string(milliseconds(90'000'000)), "1 d 1 h");
}

}  // namespace
}  // namespace muster

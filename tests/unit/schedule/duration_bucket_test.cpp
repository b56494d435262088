#include "schedule/duration_bucket.hpp"

#include <gtest/gtest.h>

namespace muster::schedule {
namespace {

TEST(LengthStep, RoundsALengthUpByAtMostAnEighth) {
  for (std::int64_t length = 1; length < 10'000'000'000; length += 1 + length / 97) {
    const Duration up = longest(step_above(Duration(length)));
    ASSERT_GE(up.count(), length);
    ASSERT_LE(up.count(), length + length / 8 + 1);
  }
}

TEST(LengthStep, NeverLetsALengthIntoAShorterWindow) {
  for (std::int64_t window = 0; window < 100'000'000; window += 1 + window / 31)
    for (const std::int64_t length : {window, window + 1, window * 9 / 8, window - window / 9}) {
      if (step_above(Duration(length)) <= step_below(Duration(window))) {
        ASSERT_LE(length, window);
      }
    }
  EXPECT_GT(LengthStep::unknown, step_below(longest_span));
}

}  // namespace
}  // namespace muster::schedule

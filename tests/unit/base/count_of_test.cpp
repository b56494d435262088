#include "base/count_of.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace muster {
namespace {

TEST(CountOf, HasOneThingInTheSingularAndEveryOtherNumberInThePlural) {
  EXPECT_EQ(count_of(0, "sample"), "0 samples");
  EXPECT_EQ(count_of(1, "sample"), "1 sample");
  EXPECT_EQ(count_of(std::size_t{2}, "GPU"), "2 GPUs");
  EXPECT_EQ(count_of(std::int64_t{134515008}, "parameter"), "134515008 parameters");
}

TEST(CountOf, TakesAPluralOfItsOwn) {
  EXPECT_EQ(count_of(1, "process", "processes"), "1 process");
  EXPECT_EQ(count_of(3, "process", "processes"), "3 processes");
}

}  // namespace
}  // namespace muster

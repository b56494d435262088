#include "generate/random_stream.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace muster::generate {
namespace {

TEST(RandomStreams, DependOnEveryNumberThatNamesThem) {
  const RandomStream stream{1, 2, 3};
  EXPECT_EQ(stream.uniform(4), (RandomStream{1, 2, 3}.uniform(4)));
  for (const RandomStream& other : {RandomStream{2, 2, 3}, RandomStream{1, 3, 3}, RandomStream{1, 2, 4}})
    EXPECT_NE(stream.uniform(4), other.uniform(4));
  EXPECT_NE(stream.uniform(4), stream.uniform(5));
}

TEST(RandomStreams, AreSpreadEvenly) {
  std::vector<int> bins(16);
  for (std::uint64_t prompt = 0; prompt < 100; ++prompt)
    for (std::uint64_t step = 0; step < 160; ++step) {
      const double drawn = RandomStream{7, prompt, 0}.uniform(step);
      ASSERT_GE(drawn, 0);
      ASSERT_LT(drawn, 1);
      ++bins[static_cast<std::size_t>(drawn * 16)];
    }
  for (const int bin : bins) EXPECT_NEAR(bin, 1000, 150);
}

}  // namespace
}  // namespace muster::generate

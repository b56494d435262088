#include "data/epoch_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace muster::data {
namespace {

std::vector<std::uint32_t> some_lengths(std::uint32_t count, std::uint32_t longest) {
  std::vector<std::uint32_t> lengths;
  for (std::uint32_t i = 0; i < count; ++i) lengths.push_back(2 + (i * 7919 + i * i) % (longest - 1));
  return lengths;
}

TEST(EpochOrder, HasEverySampleOnceWhateverThePacking) {
  for (const std::uint32_t count : {1U, 2U, 7U, 100U, 3001U})
    for (const bool packing : {false, true})
      for (const std::int64_t epoch : {0, 1, 5}) {
        const auto lengths = some_lengths(count, 64);
        const auto order = EpochOrder::make(lengths, {.seed = 3, .packing = packing, .sequence_length = 64}, epoch);
        std::vector<std::uint32_t> seen;
        for (std::int64_t i = 0; i < order.units(); ++i) {
          const auto unit = order.unit(i);
          ASSERT_FALSE(unit.empty());
          seen.insert(seen.end(), unit.begin(), unit.end());
        }
        std::ranges::sort(seen);
        std::vector<std::uint32_t> all(count);
        for (std::uint32_t i = 0; i < count; ++i) all[i] = i;
        EXPECT_EQ(seen, all) << count << " samples, packing " << packing;
      }
}

TEST(EpochOrder, KeepsSamplesTogetherThatBelongTogetherInTheOrderOfSoManySamples) {
  const auto pairs = EpochOrder::make(std::vector<std::uint32_t>(200, 5), {.seed = 3, .together = 2}, 1);
  const auto alone = EpochOrder::make(std::vector<std::uint32_t>(100, 5), {.seed = 3}, 1);
  ASSERT_EQ(pairs.units(), 100);
  for (std::int64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(pairs.unit(i).size(), 2u);
    EXPECT_EQ(pairs.unit(i)[0], 2 * alone.unit(i)[0]);
    EXPECT_EQ(pairs.unit(i)[1], 2 * alone.unit(i)[0] + 1);
  }
}

TEST(EpochOrder, FillsUnitsUpToTheSequenceLengthAndNearlyFull) {
  const auto lengths = some_lengths(5000, 200);
  const auto order = EpochOrder::make(lengths, {.seed = 1, .packing = true, .sequence_length = 512}, 0);
  std::uint64_t all = 0;
  for (std::int64_t i = 0; i < order.units(); ++i) {
    std::uint64_t used = 0;
    for (const std::uint32_t sample : order.unit(i)) used += lengths[sample];
    EXPECT_LE(used, 512u);
    all += used;
  }
  EXPECT_GT(static_cast<double>(all), 0.97 * 512 * static_cast<double>(order.units()));
}

TEST(EpochOrder, DiffersByEpochAndSeedAndIsTheSameForTheSame) {
  EXPECT_EQ(shuffled_numbers(1000, 1, 0), shuffled_numbers(1000, 1, 0));
  EXPECT_NE(shuffled_numbers(1000, 1, 0), shuffled_numbers(1000, 1, 1));
  EXPECT_NE(shuffled_numbers(1000, 1, 0), shuffled_numbers(1000, 2, 0));
  // Seeds and epochs next to each other are not the same streams, shifted.
  EXPECT_NE(shuffled_numbers(1000, 1, 2), shuffled_numbers(1000, 2, 1));
}

TEST(EpochOrder, KeepsTheOrderOfTheFilesWhereNotShuffled) {
  const auto order = EpochOrder::make(some_lengths(10, 8), {.shuffled = false}, 4);
  for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(order.unit(i)[0], static_cast<std::uint32_t>(i));
}

TEST(EpochOrder, GivesEveryOrderOfFourAboutEquallyOften) {
  std::map<std::vector<std::uint32_t>, int> seen;
  constexpr int draws = 24'000;
  for (std::uint64_t seed = 0; seed < draws; ++seed) ++seen[shuffled_numbers(4, seed, 0)];
  ASSERT_EQ(seen.size(), 24u);
  double chi_squared = 0;
  for (const auto& [order, count] : seen) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 60);  // 23 degrees of freedom: beyond 49.7 is one in a thousand; the seeds are fixed
}

}  // namespace
}  // namespace muster::data

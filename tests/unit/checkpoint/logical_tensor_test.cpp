#include "checkpoint/logical_tensor.hpp"

#include "testing/contains.hpp"
#include "training_run.hpp"

namespace muster::checkpoint {
namespace {

using muster::testing::contains;
using testing::sample_tensors;
using testing::tensor_of;

TEST(Shares, CoverEveryElementOnceAndDifferByAtMostOne) {
  auto tensors = sample_tensors();
  std::erase_if(tensors, [](const LogicalTensor& tensor) { return tensor.name == "coded"; });
  for (int ranks = 1; ranks <= 40; ++ranks) {
    std::vector<Piece> all;
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto share = share_of(tensors, ranks, rank);
      least = std::min(least, byte_count(share) / 4);
      most = std::max(most, byte_count(share) / 4);
      all.insert(all.end(), share.begin(), share.end());
    }
    EXPECT_TRUE(check_coverage(tensors, all, "all")) << ranks;
    EXPECT_LE(most - least, 1) << ranks;
  }
}

TEST(Shares, OfBytesAndFloatsCoverAllAndDifferByLessThanANumberAtEachEnd) {
  const auto tensors = sample_tensors();
  const LogicalTensor& coded = *std::ranges::find(tensors, "coded", &LogicalTensor::name);
  EXPECT_EQ(byte_count(coded), 4 * 533 + 533 + 4 * 3);
  for (int ranks = 1; ranks <= 40; ++ranks) {
    std::vector<Piece> all;
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto share = share_of(tensors, ranks, rank);
      least = std::min(least, byte_count(share));
      most = std::max(most, byte_count(share));
      all.insert(all.end(), share.begin(), share.end());
    }
    EXPECT_TRUE(check_coverage(tensors, all, "all")) << ranks;
    EXPECT_LE(most - least, 8) << ranks;
  }
}

TEST(Coverage, CountsScalesByTheirBlocks) {
  const std::vector tensors{tensor_of("a", {257}, {"parameter", "m_scales"})};
  EXPECT_TRUE(check_coverage(tensors, std::vector<Piece>{{"a", "parameter", 0, 257}, {"a", "m_scales", 0, 2}}, "all"));
  const auto missing =
      check_coverage(tensors, std::vector<Piece>{{"a", "parameter", 0, 257}, {"a", "m_scales", 0, 1}}, "all");
  ASSERT_FALSE(missing);
  EXPECT_TRUE(contains(missing.error().what, "m_scales of a: elements 1 to 2 are in no file"));
}

TEST(Shares, AreCutIntoPiecesThatSeveralThreadsCanCheck) {
  const std::vector tensors{tensor_of("large", {100'000, 1'000})};
  const auto share = share_of(tensors, 1, 0);
  EXPECT_TRUE(check_coverage(tensors, share, "all"));
  EXPECT_EQ(share.size(), 3u * 6u);  // 100M elements in pieces of 16Mi, of three states
}

TEST(Shares, OfNothingAreNothing) { EXPECT_TRUE(share_of({}, 3, 1).empty()); }

TEST(Coverage, NamesWhatIsMissingTwiceOrTooMuch) {
  const std::vector tensors{tensor_of("a", {10}, {"parameter"})};
  const auto told = [&](std::vector<Piece> pieces) {
    const auto covered = check_coverage(tensors, pieces, "step-1");
    return covered ? std::string("covered") : covered.error().what;
  };
  EXPECT_EQ(told({{"a", "parameter", 4, 6}, {"a", "parameter", 0, 4}}), "covered");
  EXPECT_TRUE(contains(told({}), "step-1: parameter of a: elements 0 to 10 are in no file"));
  EXPECT_TRUE(contains(told({{"a", "parameter", 0, 9}}), "elements 9 to 10 are in no file"));
  EXPECT_TRUE(contains(told({{"a", "parameter", 0, 6}, {"a", "parameter", 5, 5}}), "5 elements from 5 on", "from 6"));
  EXPECT_TRUE(contains(told({{"a", "parameter", 0, 11}}), "11 elements from 0 on"));
  EXPECT_TRUE(contains(told({{"a", "parameter", 0, 10}, {"a", "momentum", 0, 10}}), "momentum of a", "no such state"));
  EXPECT_TRUE(contains(told({{"a", "parameter", 0, 10}, {"b", "parameter", 0, 10}}), "parameter of b"));
}

TEST(Tensors, ThatNoCheckpointCanHoldAreRefused) {
  const auto refused = [](std::vector<LogicalTensor> tensors) { return !check_tensors(tensors); };
  EXPECT_FALSE(refused(sample_tensors()));
  EXPECT_TRUE(refused({tensor_of("a", {1}), tensor_of("a", {1})}));
  EXPECT_TRUE(refused({tensor_of("", {1})}));
  EXPECT_TRUE(refused({tensor_of("\xff", {1})}));
  EXPECT_TRUE(refused({tensor_of("a", {1}, {"parameter", "parameter"})}));
  EXPECT_TRUE(refused({tensor_of("a", {1}, {"momentum"})}));
  EXPECT_TRUE(refused({tensor_of("a", {1}, {"parameter", "first/moment"})}));
  EXPECT_TRUE(refused({tensor_of("a", {-1})}));
  EXPECT_TRUE(refused({tensor_of("a", {std::int64_t{1} << 40, std::int64_t{1} << 40})}));
}

}  // namespace
}  // namespace muster::checkpoint

#include "data/token_file.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "system/files.hpp"
#include "data/dataset.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::data {
namespace {

std::vector<Sample> some_samples(std::size_t count, std::size_t longest) {
  std::mt19937 chance(7);
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < count; ++i) {
    Sample sample;
    for (std::size_t k = 2 + chance() % (longest - 1); k > 0; --k)
      sample.tokens.push_back(static_cast<std::int32_t>(chance() % 50'000));
    const auto size = static_cast<std::uint32_t>(sample.tokens.size());
    for (std::uint32_t begin = 1 + static_cast<std::uint32_t>(chance() % 3); begin < size; begin += 5)
      sample.trained.push_back({begin, std::min(begin + 3, size)});
    samples.push_back(std::move(sample));
  }
  return samples;
}

SampleCounts write(const std::filesystem::path& place, const std::vector<Sample>& samples) {
  auto writer = TokenFileWriter::create(place).value();
  for (const Sample& sample : samples) EXPECT_TRUE(writer.add(sample));
  return writer.commit({.cut = 3, .dropped = 4, .conversations = 5, .split = 2}).value();
}

Sample copy_of(const SampleView& view) {
  return {{view.tokens.begin(), view.tokens.end()}, {view.trained.begin(), view.trained.end()}};
}

TEST(TokenFile, GivesBackWhatWasWritten) {
  const testing::ScratchFolder folder;
  for (const std::size_t count : {1u, 2u, 500u, 20'000u}) {  // the last one has several checksum blocks
    const auto samples = some_samples(count, 60);
    const auto counts = write(folder.path() / "tokens", samples);
    const auto dataset = Dataset::open(folder.path() / "tokens", Verification::everything, 2);
    ASSERT_TRUE(dataset) << to_string(dataset.error());
    EXPECT_EQ(dataset->counts(), counts);
    ASSERT_EQ(dataset->size(), static_cast<std::int64_t>(count));
    std::int64_t trained = 0;
    for (std::int64_t i = 0; i < dataset->size(); ++i) {
      ASSERT_EQ(copy_of(dataset->sample(i)), samples[static_cast<std::size_t>(i)]);
      ASSERT_EQ(dataset->length(i), static_cast<std::int64_t>(samples[static_cast<std::size_t>(i)].tokens.size()));
      trained += dataset->trained(i);
    }
    EXPECT_EQ(trained, counts.trained_tokens);
    EXPECT_EQ(counts.cut, 3);
    EXPECT_EQ(counts.dropped, 4);
    EXPECT_THROW(dataset->sample(dataset->size()), std::out_of_range);
  }
}

TEST(TokenFile, LeavesNothingBehindWhereItIsNotCommitted) {
  const testing::ScratchFolder folder;
  {
    auto writer = TokenFileWriter::create(folder.path() / "tokens").value();
    EXPECT_TRUE(writer.add({{1, 2}, {{1, 2}}}));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TokenFile, IsRefusedWhereverItIsCutOff) {
  const testing::ScratchFolder folder;
  write(folder.path() / "whole", some_samples(6, 9));
  const std::string whole = read_file(folder.path() / "whole").value();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto path = folder.write("cut", std::string_view(whole).substr(0, length));
    EXPECT_FALSE(Dataset::open(path, Verification::structure)) << length;
  }
  EXPECT_FALSE(Dataset::open(folder.write("longer", whole + "x"), Verification::structure));
}

TEST(TokenFile, IsRefusedWhicheverByteIsChanged) {
  const testing::ScratchFolder folder;
  const auto samples = some_samples(6, 9);  // an even number of tokens or not: padding is the one thing not checked
  const SampleCounts counts = write(folder.path() / "whole", samples);
  const std::string whole = read_file(folder.path() / "whole").value();
  const std::size_t tokens_end = sizeof(TokenFileStart) + 4 * static_cast<std::size_t>(counts.tokens);
  const std::size_t padding = counts.tokens % 2 == 0 ? 0 : 4;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (at >= tokens_end && at < tokens_end + padding) continue;
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    EXPECT_FALSE(Dataset::open(folder.write("damaged", damaged), Verification::everything)) << at;
  }
}

// Right checksums do not make a file right: spans and samples must lie where they say.
TEST(TokenFile, IsRefusedWhereSpansLeaveTheirSample) {
  const testing::ScratchFolder folder;
  const std::vector<std::vector<TokenSpan>> wrong{{{1, 4}}, {{0, 2}}, {{2, 2}}, {{2, 1}}, {{1, 3}, {2, 3}}, {{7, 9}}};
  for (const auto& spans : wrong) {
    write(folder.path() / "tokens", {{{1, 2, 3}, {{1, 3}}}, {{1, 2, 3}, spans}});
    EXPECT_FALSE(Dataset::open(folder.path() / "tokens", Verification::structure)) << spans.front().begin;
  }
}

// Ranks do not read all tokens when they start: whatever those are, samples stay within them.
TEST(TokenFile, WithDamagedTokensHasTheSameStructure) {
  const testing::ScratchFolder folder;
  write(folder.path() / "whole", some_samples(6, 9));
  std::string damaged = read_file(folder.path() / "whole").value();
  damaged[sizeof(TokenFileStart) + 5] ^= 1;
  const auto path = folder.write("damaged", damaged);
  EXPECT_TRUE(Dataset::open(path, Verification::structure));
  EXPECT_FALSE(Dataset::open(path, Verification::everything));
}

}  // namespace
}  // namespace muster::data

#include "checkpoint/training_manifest.hpp"

#include "testing/contains.hpp"
#include "training_run.hpp"

namespace muster::checkpoint {
namespace {

using muster::testing::contains;

TrainingManifest sample() {
  return {testing::state_at(7), testing::sample_tensors(), {{100, 1}, {200, ~std::uint64_t{0}}}};
}

// The text with one part of it replaced, and the checksum made right again.
std::string told(const std::string& part, const std::string& other) {
  std::string text = *print_manifest(sample());
  text.resize(text.size() - seal_manifest("").size());
  const std::size_t at = text.find(part);
  if (at == std::string::npos) return "no " + part;
  const auto parsed = parse_manifest(seal_manifest(text.replace(at, part.size(), other)), "manifest.json");
  return parsed ? "was read" : parsed.error().what;
}

TEST(Manifest, IsReadAsItWasWritten) {
  const auto text = print_manifest(sample());
  ASSERT_TRUE(text) << text.error().what;
  const auto read = parse_manifest(*text, "manifest.json");
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(*read, sample());
}

TEST(Manifest, IsOfALaterVersionWhereAStateIsNotAFloatForEachElement) {
  TrainingManifest manifest = sample();
  EXPECT_TRUE(contains(*print_manifest(manifest), "\"version\": 3"));
  std::erase_if(manifest.tensors, [](const LogicalTensor& tensor) { return tensor.name == "coded"; });
  const auto text = print_manifest(manifest);
  ASSERT_TRUE(text) << text.error().what;
  EXPECT_TRUE(contains(*text, "\"version\": 2"));
  EXPECT_EQ(parse_manifest(*text, "manifest.json").value(), manifest);
}

TEST(Manifest, IsRefusedWithAnyByteChangedLeftOutOrAdded) {
  const std::string text = *print_manifest(sample());
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string other = text;
    other[at] = static_cast<char>(other[at] ^ (1 << at % 7));
    EXPECT_FALSE(parse_manifest(other, "m")) << at;
    EXPECT_FALSE(parse_manifest(text.substr(0, at), "m")) << at;
    EXPECT_FALSE(parse_manifest(text.substr(0, at) + text.substr(at + 1), "m")) << at;
  }
  EXPECT_FALSE(parse_manifest(text + "\n", "m"));
  EXPECT_FALSE(parse_manifest(text + text, "m"));
}

TEST(Manifest, NamesWhatItCannotMean) {
  EXPECT_TRUE(contains(told("\"version\": 3", "\"version\": 1"), "version 1 of the format, and this muster reads 2"));
  EXPECT_TRUE(contains(told("\"version\": 3", "\"version\": 4"), "version 4 of the format, and this muster reads 2"));
  EXPECT_TRUE(contains(told("muster-training", "other"), "no manifest of a training checkpoint"));
  EXPECT_TRUE(contains(told("\"step\": 7", "\"step\": \"7\""), "\"step\" is \"7\", and must be a whole number"));
  EXPECT_TRUE(contains(told("\"cursor\"", "\"course\""), "has no \"cursor\""));
  EXPECT_TRUE(contains(told("rank-1-of-2.state", "../../etc/passwd"), "file 1 has no name or no checksum"));
  EXPECT_TRUE(contains(told("   37,", "   -37,"), "shape that cannot be"));
  EXPECT_EQ(told("\"seed\"", "\"later\": 1, \"seed\""), "was read");  // fields that are not known are skipped
}

}  // namespace
}  // namespace muster::checkpoint

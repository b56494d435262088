#include "spec/model/quantized/gptq_zero_points.hpp"

#include <gtest/gtest.h>

#include "checkpoint_bytes.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::spec {
namespace {

using muster::testing::ScratchFolder;
using testing::little_endian;

constexpr GptqQuantization asymmetric{.bits = 4, .symmetric = false};

class GptqZeroPoints : public ::testing::Test {
 protected:
  // A file with these words as the zero points of two groups.
  bool doubtful(const GptqQuantization& method, const std::vector<std::uint32_t>& words) {
    const auto row = static_cast<std::int64_t>(words.size() / 2);
    const nlohmann::json header{
        {"model.layers.0.mlp.up_proj.qzeros",
         {{"dtype", "I32"}, {"shape", {2, row}}, {"data_offsets", {0, 4 * words.size()}}}}};
    std::string file = testing::safetensors_bytes(header.dump(), 0);
    for (const std::uint32_t word : words) file += little_endian(word);
    const auto path = folder_.write("model.safetensors", file);
    auto read = read_safetensors_header(path);
    EXPECT_TRUE(read);
    const auto found = has_doubtful_zero_points(method, {{path, *read}});
    EXPECT_TRUE(found);
    return found && *found;
  }
  ScratchFolder folder_;
};

TEST_F(GptqZeroPoints, AreDoubtfulWhereOneIsAllOnes) {
  EXPECT_FALSE(doubtful(asymmetric, {0x77777777, 0x12345678, 0x0, 0xeeeeeeee}));
  EXPECT_TRUE(doubtful(asymmetric, {0x77777777, 0x12345678, 0x0, 0xe7eeefee}));
  EXPECT_FALSE(doubtful(asymmetric, {0x01e07800, 0x3c0}));  // four ones, across two fields
}

TEST_F(GptqZeroPoints, AreLookedAtAcrossWordsAndNotAcrossRows) {
  GptqQuantization three = asymmetric;
  three.bits = 3;
  EXPECT_TRUE(doubtful(three, {0xc0000000, 0x1, 0, 0, 0, 0}));   // the eleventh of a row
  EXPECT_FALSE(doubtful(three, {0, 0, 0xc0000000, 0x1, 0, 0}));  // the end of a row and the beginning of the next
}

TEST_F(GptqZeroPoints, AreCertainInTheSecondFormatAndWhereTheyAreSymmetric) {
  GptqQuantization method = asymmetric;
  method.zeros_less_one = false;
  EXPECT_FALSE(doubtful(method, {0xffffffff, 0xffffffff}));
  method = asymmetric;
  method.symmetric = true;
  EXPECT_FALSE(doubtful(method, {0xffffffff, 0xffffffff}));
}

}  // namespace
}  // namespace muster::spec

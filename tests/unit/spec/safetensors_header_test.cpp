#include "spec/model/safetensors_header.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "checkpoint_bytes.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::spec {
namespace {

using muster::testing::contains;
using muster::testing::ScratchFolder;
using testing::safetensors_bytes;
using testing::safetensors_of;

Result<SafetensorsHeader> parse(const std::string& file) { return parse_safetensors_header(file, file.size(), "x"); }

std::string refused(const std::string& file) {
  const auto header = parse(file);
  EXPECT_FALSE(header) << "it was accepted";
  return header ? "" : to_string(header.error());
}

std::string refused(std::string_view header, std::size_t data) { return refused(safetensors_bytes(header, data)); }

TEST(SafetensorsHeader, TellsNamesTypesSizesAndPlaces) {
  const std::string text =
      R"({"__metadata__": {"format": "pt"}, "b": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [4, 16]},
          "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
          "none": {"dtype": "I64", "shape": [0, 7], "data_offsets": [16, 16]}}   )";
  const auto header = parse(safetensors_bytes(text, 16));
  ASSERT_TRUE(header) << to_string(header.error());
  ASSERT_EQ(header->tensors.size(), 3u);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].dimensions.rank, 0u);
  EXPECT_EQ(header->tensors[0].begin, 8 + text.size());
  EXPECT_EQ(header->tensors[1].name, "b");
  EXPECT_EQ(header->tensors[1].type, ElementType::bfloat16);
  EXPECT_EQ(header->tensors[1].dimensions.elements(), 6);
  EXPECT_EQ(header->tensors[1].end - header->tensors[1].begin, 12u);
  EXPECT_EQ(header->metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, RefusesLengthsThatTheFileDoesNotHave) {
  EXPECT_TRUE(contains(refused(""), "0 bytes"));
  EXPECT_TRUE(contains(refused("1234567"), "7 bytes"));
  EXPECT_TRUE(contains(refused(testing::little_endian<std::uint64_t>(~0ull) + "{}"), "18446744073709551615"));
  EXPECT_TRUE(contains(refused(testing::little_endian<std::uint64_t>(100'000'001) + "{}"), "100000001"));
  EXPECT_TRUE(contains(refused(testing::little_endian<std::uint64_t>(3) + "{}"), "cut off", "3 bytes", "10 bytes"));
  const auto short_read = parse_safetensors_header(testing::little_endian<std::uint64_t>(90) + "{}", 1000, "x");
  ASSERT_FALSE(short_read);
  EXPECT_TRUE(contains(short_read.error().what, "could not be read whole"));
}

TEST(SafetensorsHeader, RefusesPlacesThatOverlapLeaveHolesOrLieOutside) {
  const auto two = [](std::string_view first, std::string_view second) {
    return fmt::format(R"({{"a": {{"dtype": "U8", "shape": [4], "data_offsets": {}}},
                            "b": {{"dtype": "U8", "shape": [4], "data_offsets": {}}}}})",
                       first, second);
  };
  EXPECT_TRUE(parse(safetensors_bytes(two("[4, 8]", "[0, 4]"), 8)));
  EXPECT_TRUE(contains(refused(two("[0, 4]", "[2, 6]"), 6), "\"b\"", "inside of another"));
  EXPECT_TRUE(contains(refused(two("[0, 4]", "[6, 10]"), 10), "\"b\"", "after a hole"));
  EXPECT_TRUE(contains(refused(two("[1, 5]", "[5, 9]"), 9), "\"a\"", "after a hole"));
  EXPECT_TRUE(contains(refused(two("[0, 4]", "[4, 8]"), 7), "\"b\" lies from 4 to 8 of 7"));
  EXPECT_TRUE(contains(refused(two("[0, 4]", "[4, 8]"), 9), "end at byte", "it has"));
  EXPECT_TRUE(contains(refused(two("[4, 0]", "[4, 8]"), 8), "\"a\" lies from 4 to 0"));
  EXPECT_TRUE(
      contains(refused(two("[0, 18446744073709551615]", "[4, 8]"), 8), "\"a\" lies from 0 to 18446744073709551615"));
  EXPECT_TRUE(contains(refused(two("[0]", "[4, 8]"), 8), "no two data_offsets"));
  EXPECT_TRUE(contains(refused(two("[-1, 3]", "[4, 8]"), 8), "no two data_offsets"));
}

TEST(SafetensorsHeader, RefusesSizesThatDoNotMatchTheirLength) {
  const auto one = [](std::string_view dtype, std::string_view shape) {
    return fmt::format(R"({{"w": {{"dtype": {}, "shape": {}, "data_offsets": [0, 8]}}}})", dtype, shape);
  };
  EXPECT_TRUE(parse(safetensors_bytes(one("\"F32\"", "[1, 2]"), 8)));
  EXPECT_TRUE(contains(refused(one("\"F32\"", "[3]"), 8), "\"w\" takes 8 bytes", "3 elements of F32"));
  EXPECT_TRUE(contains(refused(one("\"F99\"", "[2]"), 8), "type that is not known: \"F99\""));
  EXPECT_TRUE(contains(refused(one("7", "[2]"), 8), "type that is not known: 7"));
  EXPECT_TRUE(contains(refused(one("\"F32\"", "[-2]"), 8), "cannot be: -2"));
  EXPECT_TRUE(contains(refused(one("\"F32\"", "[2.0]"), 8), "cannot be: 2.0"));
  EXPECT_TRUE(contains(refused(one("\"F32\"", "[4294967296, 4294967296, 4294967296]"), 8), "cannot be"));
  EXPECT_TRUE(contains(refused(one("\"F64\"", "[2305843009213693953]"), 8), "do not"));
  EXPECT_TRUE(contains(refused(one("\"F32\"", "[9223372036854775807, 2, 0]"), 8), "cannot be"));
  EXPECT_TRUE(contains(refused(one("\"F32\"", "[1, 1, 1, 1, 2]"), 8), "\"w\" has 5 dimensions, [1, 1, 1, 1, 2]"));
  EXPECT_TRUE(contains(refused(one("\"F32\"", "{}"), 8), "no list"));
}

TEST(SafetensorsHeader, RefusesHeadersThatAreNoSuchObject) {
  EXPECT_TRUE(contains(refused("[]", 0), "not a JSON object"));
  EXPECT_TRUE(contains(refused("{\"a\": ", 0), "invalid JSON"));
  EXPECT_TRUE(contains(refused("{\"a\": {}}", 0), "lacks dtype"));
  EXPECT_TRUE(contains(refused("{\"\xff\": {}}", 0), "invalid JSON"));
  EXPECT_TRUE(contains(refused(R"({"__metadata__": {"a": 1}})", 0), "__metadata__ \"a\" is not text"));
  EXPECT_TRUE(contains(refused(R"({"__metadata__": 1})", 0), "__metadata__"));
  const std::string twice =
      R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})";
  EXPECT_TRUE(contains(refused(twice, 1), "\"a\" twice"));
}

TEST(SafetensorsHeader, ReadsOnlyTheHeaderOfAFile) {
  const ScratchFolder folder;
  const auto path = folder.write("a.safetensors", safetensors_of({{"w", {2, 2}}}));
  const auto header = read_safetensors_header(path);
  ASSERT_TRUE(header) << to_string(header.error());
  EXPECT_EQ(header->tensors.at(0).name, "w");
  EXPECT_TRUE(contains(read_safetensors_header(folder.path() / "none").error().what, "none", "No such file"));
  EXPECT_TRUE(contains(read_safetensors_header(folder.path()).error().what, "not a regular file"));
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(contains(read_safetensors_header(pipe).error().what, "not a regular file"));
}

TEST(SafetensorsHeader, OfASparseGiantAllocatesNothingByItsClaims) {
  const ScratchFolder folder;
  const auto path = folder.write("giant.safetensors", testing::little_endian<std::uint64_t>(99'999'999) + "{");
  std::filesystem::resize_file(path, std::uint64_t{1} << 40);
  EXPECT_TRUE(contains(read_safetensors_header(path).error().what, "invalid JSON"));
}

class CheckpointFolder : public ::testing::Test {
 protected:
  std::string refused() const {
    const auto files = read_checkpoint_headers(folder_.path());
    EXPECT_FALSE(files) << "it was accepted";
    return files ? "" : to_string(files.error());
  }
  void write_index(std::string_view map) {
    folder_.write("model.safetensors.index.json", fmt::format(R"({{"metadata": {{}}, "weight_map": {}}})", map));
  }
  ScratchFolder folder_;
};

TEST_F(CheckpointFolder, WithoutACheckpointHasNoFiles) {
  const auto files = read_checkpoint_headers(folder_.path());
  ASSERT_TRUE(files);
  EXPECT_TRUE(files->empty());
}

TEST_F(CheckpointFolder, HasTheFilesThatItsIndexLists) {
  folder_.write("one.safetensors", safetensors_of({{"a", {2}}, {"b", {3}}}));
  folder_.write("two.safetensors", safetensors_of({{"c", {2}}}));
  folder_.write("other.safetensors", "not part of it");
  write_index(R"({"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"})");
  const auto files = read_checkpoint_headers(folder_.path());
  ASSERT_TRUE(files) << to_string(files.error());
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].header.tensors.size(), 2u);
  EXPECT_EQ((*files)[1].path, folder_.path() / "two.safetensors");
}

TEST_F(CheckpointFolder, RefusesAnIndexThatDisagreesWithItsFiles) {
  folder_.write("one.safetensors", safetensors_of({{"a", {2}}, {"b", {3}}}));
  write_index(R"({"a": "one.safetensors"})");
  EXPECT_TRUE(contains(refused(), "does not list \"b\"", "one.safetensors"));
  write_index(R"({"a": "one.safetensors", "b": "one.safetensors", "c": "one.safetensors"})");
  EXPECT_TRUE(contains(refused(), "lists \"c\" in one.safetensors"));
  write_index(R"({"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"})");
  EXPECT_TRUE(contains(refused(), "two.safetensors, which is not there"));
  write_index("{}");
  EXPECT_TRUE(contains(refused(), "no weight_map"));
}

TEST_F(CheckpointFolder, RefusesAnIndexThatPointsOutOfItsFolder) {
  for (const char* file :
       {"../one.safetensors", "/etc/one.safetensors", "sub/one.safetensors", "/etc/passwd", "..", ""}) {
    write_index(fmt::format(R"({{"a": "{}"}})", file));
    EXPECT_TRUE(contains(refused(), "\"a\" lies in", file, "not a .safetensors file beside it"));
  }
}

}  // namespace
}  // namespace muster::spec

#include "checkpoint/checkpoint_writer.hpp"

#include <gtest/gtest.h>

#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
using spec::ElementType;
using testing::contains;

TensorDeclaration vector_of(std::string name, std::int64_t size, ElementType type = ElementType::float32) {
  TensorDeclaration tensor{std::move(name), type, {}};
  tensor.dimensions.rank = 1;
  tensor.dimensions.sizes[0] = size;
  return tensor;
}

std::vector<std::byte> zeros(std::size_t count) { return std::vector<std::byte>(count); }

class Writer : public ::testing::Test {
 protected:
  std::string refused(std::vector<TensorDeclaration> tensors) {
    const auto made = CheckpointWriter::create(scratch_.path() / "model", std::move(tensors), gibibytes(1));
    return made ? "was not refused" : made.error().what;
  }
  bool is_empty() const { return fs::directory_iterator(scratch_.path()) == fs::directory_iterator(); }

  testing::ScratchFolder scratch_;
};

TEST_F(Writer, RefusesDeclarationsThatNoFileCanHold) {
  EXPECT_TRUE(contains(refused({vector_of("a", 1), vector_of("a", 2)}), "tensor a", "twice"));
  EXPECT_TRUE(contains(refused({vector_of("__metadata__", 1)}), "__metadata__"));
  EXPECT_TRUE(contains(refused({vector_of("a", 1, ElementType::float8)}), "float8 cannot be written"));
  EXPECT_TRUE(is_empty());
}

TEST_F(Writer, RefusesToFinishWhileATensorLacksBytes) {
  auto writer =
      CheckpointWriter::create(scratch_.path() / "model", {vector_of("a", 4), vector_of("b", 4)}, gibibytes(1));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->write("a", zeros(16)));
  ASSERT_TRUE(writer->write_part("b", 8, zeros(8)));
  const auto early = writer->finish();
  ASSERT_FALSE(early);
  EXPECT_TRUE(contains(early.error().what, "tensor b: 8 of 16 bytes were written"));
  EXPECT_FALSE(fs::exists(scratch_.path() / "model"));
  ASSERT_TRUE(writer->write_part("b", 0, zeros(8)));
  EXPECT_TRUE(writer->finish());
  EXPECT_TRUE(fs::exists(scratch_.path() / "model" / "model.safetensors"));
}

TEST_F(Writer, RefusesBytesThatATensorHasNoRoomFor) {
  auto writer = CheckpointWriter::create(scratch_.path() / "model", {vector_of("a", 4)}, gibibytes(1));
  ASSERT_TRUE(writer);
  EXPECT_FALSE(writer->write("other", zeros(4)));
  EXPECT_FALSE(writer->write("a", zeros(12)));
  EXPECT_FALSE(writer->write_part("a", 12, zeros(8)));
  EXPECT_FALSE(writer->write_part("a", ~std::uint64_t{0}, zeros(8)));
  EXPECT_TRUE(writer->write("a", zeros(16)));
  EXPECT_FALSE(writer->write("a", zeros(16)));  // twice
}

TEST_F(Writer, LeavesNothingWhenItIsDropped) {
  {
    auto writer = CheckpointWriter::create(scratch_.path() / "model", {vector_of("a", 4)}, gibibytes(1));
    ASSERT_TRUE(writer && writer->write("a", zeros(16)) && writer->add_file("config.json", "{}"));
  }
  EXPECT_TRUE(is_empty());
}

}  // namespace
}  // namespace muster::checkpoint

#include "spec/packed_name.hpp"

#include <gtest/gtest.h>

#include "testing/scratch_folder.hpp"

namespace muster::spec {
namespace {

class PackedNames : public ::testing::Test {
 protected:
  PackedNames() {
    for (const char* name : {"llama", "other-4bit", "other"}) std::filesystem::create_directories(folder_.path() / name);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  Result<void> take(ModelSpec& model, const std::string& name) const {
    model.path = path(name);
    return take_packed_name(model, {});
  }

  testing::ScratchFolder folder_;
};

TEST_F(PackedNames, SayHowAModelIsHeld) {
  ModelSpec four, eight;
  ASSERT_TRUE(take(four, "llama-4bit"));
  EXPECT_EQ(four.path, path("llama"));
  EXPECT_TRUE(four.load_in_4bit && !four.load_in_8bit);
  ASSERT_TRUE(take(eight, "llama-8bit"));
  EXPECT_EQ(eight.path, path("llama"));
  EXPECT_TRUE(eight.load_in_8bit && !eight.load_in_4bit);
}

TEST_F(PackedNames, AModelOfThatVeryNameIsThatModel) {
  ModelSpec model;
  ASSERT_TRUE(take(model, "other-4bit"));
  EXPECT_EQ(model.path, path("other-4bit"));
  EXPECT_FALSE(model.load_in_4bit);
}

TEST_F(PackedNames, StayWhereNoModelHasTheRestForAName) {
  for (const char* name : {"none-4bit", "llama", "llama-2bit"}) {
    ModelSpec model;
    ASSERT_TRUE(take(model, name));
    EXPECT_EQ(model.path, path(name));
    EXPECT_FALSE(model.load_in_4bit || model.load_in_8bit);
  }
}

TEST_F(PackedNames, AreRefusedWhereSettingsSayOtherwise) {
  ModelSpec model;
  model.load_in_8bit = true;
  const auto taken = take(model, "llama-4bit");
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().what.find("llama-4bit asks for 4 bits, and model.load_in_8bit is true"), std::string::npos);
  EXPECT_TRUE(take(model, "llama-8bit"));
}

}  // namespace
}  // namespace muster::spec

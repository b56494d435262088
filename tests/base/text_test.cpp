#include "base/text.hpp"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Text, SplitsAndJoinsBack) {
  EXPECT_EQ(split("a,b,,c", ','), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_EQ(split("", ','), std::vector<std::string>{""});
  EXPECT_EQ(join(split("a,b,,c", ','), ","), "a,b,,c");
}

TEST(Text, ParsesOnlyWholeNumbers) {
  EXPECT_EQ(parse_number<int>("42"), 42);
  EXPECT_EQ(parse_number<int>("+42"), 42);
  EXPECT_EQ(parse_number<int>("-3"), -3);
  EXPECT_FALSE(parse_number<int>("42x"));
  EXPECT_FALSE(parse_number<int>(" 42"));
  EXPECT_FALSE(parse_number<int>("99999999999"));
  EXPECT_FALSE(parse_number<int>(""));
  EXPECT_EQ(parse_number<double>("2e-4"), 2e-4);
}

TEST(Text, FindsTheWordATypingErrorMeant) {
  const std::vector<std::string> known{"distributed.num_gpus", "distributed.gpu_ids", "model.dtype"};
  EXPECT_EQ(nearest("distributed.num_gpu", known), "distributed.num_gpus");
  EXPECT_EQ(nearest("distributed.nmu_gpus", known), "distributed.num_gpus");
  EXPECT_EQ(nearest("Model.Dtype", known), "model.dtype");
  EXPECT_FALSE(nearest("completely.different.thing", known));
}

}  // namespace
}  // namespace muster

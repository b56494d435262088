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

TEST(Text, TellsUtf8FromOtherBytes) {
  for (const char* text :
       {"", "plain", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"})
    EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text : {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                           "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "a\xc3(", "\xf0\x9f\x98"})
    EXPECT_FALSE(is_utf8(text)) << text;
}

}  // namespace
}  // namespace muster

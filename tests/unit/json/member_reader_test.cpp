#include "json/member_reader.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace muster {
namespace {

using nlohmann::json;

TEST(MemberReader, TakesWhatIsThere) {
  const json object = json::parse(R"({"text":"a","whole":-3,"number":0.5,"truth":true,"texts":["b","c"]})");
  MemberReader reader(object);
  EXPECT_EQ(reader.text("text"), "a");
  EXPECT_EQ(reader.whole("whole"), -3);
  EXPECT_EQ(reader.whole_as<int>("whole"), -3);
  EXPECT_EQ(reader.number("number"), 0.5);
  EXPECT_TRUE(reader.truth("truth"));
  EXPECT_EQ(reader.texts("texts"), (std::vector<std::string>{"b", "c"}));
  EXPECT_FALSE(reader.problem());
}

TEST(MemberReader, RemembersTheFirstProblemAndReadsOn) {
  const json object = json::parse(R"({"rank":"three","code":7})");
  MemberReader reader(object);
  EXPECT_EQ(reader.whole("rank"), 0);
  EXPECT_EQ(reader.text("host"), "");
  EXPECT_EQ(reader.whole("code"), 7);
  ASSERT_TRUE(reader.problem());
  EXPECT_EQ(to_string(*reader.problem()), "\"rank\" is \"three\", and must be a whole number");
}

TEST(MemberReader, NamesAMemberThatIsMissing) {
  const json object = json::object();
  MemberReader reader(object);
  EXPECT_FALSE(reader.truth("leads"));
  EXPECT_EQ(to_string(*reader.problem()), "has no \"leads\"");
}

TEST(MemberReader, RefusesNumbersThatDoNotFit) {
  for (const char* text : {"18446744073709551615", "9223372036854775808", "2147483648", "-2147483649", "1.0", "1e3",
                           "\"1\"", "null", "[1]"}) {
    const json object{{"number", json::parse(text)}};
    MemberReader reader(object);
    EXPECT_EQ(reader.whole_as<std::int32_t>("number"), 0) << text;
    EXPECT_TRUE(reader.problem()) << text;
  }
  const json object{{"number", std::numeric_limits<std::uint64_t>::max()}};
  EXPECT_EQ(find_whole(object, "number"), std::nullopt);
}

TEST(MemberReader, RefusesATextThatIsTooLong) {
  const json object{{"name", "abcd"}};
  EXPECT_EQ(MemberReader(object).text("name", 4), "abcd");
  MemberReader reader(object);
  EXPECT_EQ(reader.text("name", 3), "");
  EXPECT_EQ(reader.problem()->wanted, "a text of at most 3 bytes");
}

TEST(MemberReader, ReadsAnythingButAnObjectAsOneWithoutMembers) {
  for (const char* text : {"[]", "null", "3", "\"a\"", "[[1]]"}) {
    const json value = json::parse(text);
    MemberReader reader(value);
    EXPECT_FALSE(reader.contains("a")) << text;
    EXPECT_EQ(reader.list("a").size(), 0U) << text;
    EXPECT_EQ(reader.problem()->wanted, "a list") << text;
    EXPECT_EQ(find_text(value, "a"), std::nullopt) << text;
  }
}

TEST(MemberReader, TellsAbsentFromNull) {
  const json object = json::parse(R"({"a":null,"b":1})");
  const MemberReader reader(object);
  EXPECT_TRUE(reader.contains("a"));
  EXPECT_FALSE(reader.has("a"));
  EXPECT_TRUE(reader.has("b"));
  EXPECT_FALSE(reader.contains("c"));
}

TEST(MemberReader, TakesTheProblemOfAnInnerObjectIfItHasNone) {
  const json object = json::parse(R"({"inner":{"a":1}})");
  MemberReader outer(object), inner(object["inner"]);
  inner.text("a");
  outer.adopt(inner);
  EXPECT_EQ(outer.problem()->key, "a");
}

}  // namespace
}  // namespace muster

#include "base/document.hpp"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Document, RemembersWhereEverythingStood) {
  const auto root = parse_document("a: 1\nb:\n  c: [x, \"2\"]\n", "run.yaml");
  ASSERT_TRUE(root) << root.error().what;
  const Node* list = root->find("b")->find("c");
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->position, (TextPosition{3, 6}));
  EXPECT_EQ(list->items[1].text, "2");
  EXPECT_TRUE(list->items[1].quoted);
  EXPECT_FALSE(list->items[0].quoted);
  EXPECT_EQ(root->entries[1].position, (TextPosition{2, 1}));
}

TEST(Document, ReadsJsonAsWell) {
  const auto root =
      parse_document("{\"gpus\": [{\"memory_total\": 42, \"name\": \"A\\u00e9\", \"healthy\": null}]}", "f.json");
  ASSERT_TRUE(root) << root.error().what;
  const Node& gpu = root->find("gpus")->items[0];
  EXPECT_EQ(gpu.find("memory_total")->text, "42");
  EXPECT_EQ(gpu.find("name")->text, "A\xc3\xa9");
  EXPECT_EQ(gpu.find("healthy")->kind, Node::Kind::null);
}

TEST(Document, RefusesAKeyThatIsWrittenTwiceAndNamesBothLines) {
  const auto root = parse_document("a: 1\nb: 2\na: 3\n", "run.yaml");
  ASSERT_FALSE(root);
  EXPECT_NE(root.error().what.find("run.yaml:3:1"), std::string::npos) << root.error().what;
  EXPECT_NE(root.error().what.find("line 1"), std::string::npos);
}

TEST(Document, ResolvesAliasesButNotWithoutLimit) {
  const auto shared = parse_document("a: &x [1, 2]\nb: *x\n", "f");
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->find("b")->items.size(), 2U);

  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) laughs += (j > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    laughs += "]\n";
  }
  const auto bomb = parse_document(laughs, "f");
  ASSERT_FALSE(bomb);
  EXPECT_NE(bomb.error().what.find("aliases"), std::string::npos) << bomb.error().what;
}

// Counted in values, each of these would be small.
TEST(Document, BoundsTheMemoryThatAFewLinesStandFor) {
  std::string repeated = "long: &long " + std::string(300'000, 'x') + "\nmany: [";
  for (int i = 0; i < 50'000; ++i) repeated += "*long, ";
  const auto copies = parse_document(repeated + "x]\n", "f");
  ASSERT_FALSE(copies);
  EXPECT_NE(copies.error().what.find("bytes in memory"), std::string::npos) << copies.error().what;

  // Every anchor keeps a copy: of the first one the whole text, of the next all but one value, and so on.
  std::string anchored = "[" + std::string(200'000, 'x') + "]";
  for (int i = 0; i < 60; ++i) anchored = "&a" + std::to_string(i) + " [" + anchored + "]";
  EXPECT_TRUE(parse_document(anchored, "f"));
  std::string deep = "&z [" + std::string(1'000'000, 'x') + "]";
  for (int i = 0; i < 200; ++i) deep = "&a" + std::to_string(i) + " [" + deep + "]";
  EXPECT_FALSE(parse_document(deep, "f"));
}

// With a search through all earlier keys for each, this would take minutes.
TEST(Document, ReadsTablesOfManyKeys) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "key-" + std::to_string(i) + ": 1\n";
  const auto root = parse_document(text, "f");
  ASSERT_TRUE(root) << root.error().what;
  EXPECT_EQ(root->entries.size(), 200'000U);
}

TEST(Document, RefusesWhatIsNotADocument) {
  EXPECT_FALSE(parse_document("a: [1, 2", "f"));
  EXPECT_FALSE(parse_document("a: 1\n---\nb: 2\n", "f"));
  EXPECT_FALSE(parse_document("? [a]\n: 1\n", "f"));
  EXPECT_FALSE(parse_document("a: &x {b: *x}\n", "f"));
  EXPECT_FALSE(parse_document(std::string("a: 1\0b", 6), "f"));
  EXPECT_FALSE(parse_document(std::string(100'000, '['), "f"));
}

TEST(Document, TakesAnEmptyTextAsNothing) {
  EXPECT_EQ(parse_document("", "f")->kind, Node::Kind::null);
  EXPECT_EQ(parse_document("# only a comment\n", "f")->kind, Node::Kind::null);
}

}  // namespace
}  // namespace muster

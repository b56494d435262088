#include "worker/answer_text.hpp"

#include <gtest/gtest.h>

#include <random>

namespace muster::worker {
namespace {

struct Found {
  std::string text;
  bool stopped = false;
  bool operator==(const Found&) const = default;
};

Found search(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopSearch search(stops);
  Found found;
  for (const std::string& piece : pieces) found.text += search.push(piece);
  found.text += search.finish();
  found.stopped = search.found();
  return found;
}

TEST(StopTexts, EndTheTextBeforeThem) {
  EXPECT_EQ(search({"\n\n"}, {"one\n", "two\n", "\nthree"}), (Found{"one\ntwo", true}));
  EXPECT_EQ(search({"END"}, {"ENDLESS"}), (Found{"", true}));
  EXPECT_EQ(search({"###"}, {"a##b"}), (Found{"a##b", false}));
}

TEST(StopTexts, HoldBackWhatMayBeTheirBeginning) {
  StopSearch search({"stop", "</s>"});
  EXPECT_EQ(search.push("a st"), "a ");
  EXPECT_EQ(search.push("r<"), "str");
  EXPECT_EQ(search.push("/s"), "");
  EXPECT_EQ(search.push("x"), "</sx");
  EXPECT_EQ(search.push("sto"), "");
  EXPECT_EQ(search.finish(), "sto");
}

TEST(StopTexts, OfSeveralTheOneThatIsCompleteFirstCounts) {
  EXPECT_EQ(search({"abcd", "bc"}, {"xabcd"}), (Found{"xa", true}));
  EXPECT_EQ(search({"bc", "abc"}, {"xabc"}), (Found{"x", true}));
}

TEST(StopTexts, AreFoundWhereverThePiecesEnd) {
  std::mt19937 chance(1);
  const auto letters = [&](int most) {
    std::string text;
    for (int i = std::uniform_int_distribution<int>(1, most)(chance); i > 0; --i) text += chance() % 2 == 0 ? 'a' : 'b';
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> stops{letters(5), letters(6)};
    const std::string text = letters(20);
    std::vector<std::string> pieces, single;
    for (const char letter : text) single.emplace_back(1, letter);
    for (std::size_t first = 0; first < text.size();) {
      pieces.push_back(text.substr(first, 1 + chance() % 6));
      first += pieces.back().size();
    }
    const Found found = search(stops, pieces);
    ASSERT_EQ(found, search(stops, single));
    ASSERT_EQ(found, search(stops, {text}));
    for (const std::string& stop : stops) ASSERT_EQ(found.text.find(stop), std::string::npos);
    stopped += found.stopped ? 1 : 0;
  }
  EXPECT_GT(stopped, 500);
}

}  // namespace
}  // namespace muster::worker

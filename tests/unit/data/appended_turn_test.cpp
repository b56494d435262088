// Conversations that go on by tokens (chat/appended_turn.hpp), with the tokenizer of bytes.
#include "chat/appended_turn.hpp"

#include <gtest/gtest.h>

#include "data/byte_tokenizer.hpp"

namespace muster::data {
namespace {

// As Qwen's, in short: <|end|> ends a message, and thoughts of earlier turns are left out.
constexpr const char* short_template =
    "{% for m in messages %}{% if m.role == 'robot' %}{{ raise_exception('no robots') }}{% endif %}"
    "[{{ m.role }}]{{ m.content.split('</think>')[-1] }}<|end|>\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

chat::ModelText text_with(const std::map<std::string, std::string>& templates) {
  chat::ModelTextFiles files = byte_tokenizer_files();
  files.templates = templates;
  auto text = chat::ModelText::parse(files);
  if (!text) throw std::runtime_error(to_string(text.error()));
  return std::move(*text);
}

nlohmann::ordered_json message(const std::string& role, const std::string& content) {
  return nlohmann::ordered_json::array({{{"role", role}, {"content", content}}});
}

std::string shown(const chat::ModelText& text, const std::vector<std::int32_t>& tokens) {
  return text.tokenizer().decode(tokens, false);
}

TEST(AppendedTurn, BeginsWithTheTemplatesWordsOrThePlainContents) {
  const auto with = chat::open_conversation(text_with({{"default", short_template}}), message("user", "Hi"));
  ASSERT_TRUE(with);
  EXPECT_EQ(with->prompt, "[user]Hi<|end|>\n[assistant]");
  EXPECT_TRUE(with->rendered);
  auto two = message("system", "Be.");
  two.push_back({{"role", "user"}, {"content", "Hi"}});
  const auto without = chat::open_conversation(text_with({}), two);
  EXPECT_EQ(without->prompt, "Be.\nHi");
  EXPECT_FALSE(without->rendered);
}

TEST(AppendedTurn, IsWhatTheTemplateWritesBetweenTwoAnswers) {
  const auto text = text_with({{"default", short_template}});
  const auto after_end = chat::tokens_after_answer(text, message("tool", "42"), ByteTokens::end);
  ASSERT_TRUE(after_end) << to_string(after_end.error());
  EXPECT_EQ(shown(text, *after_end), "\n[tool]42<|end|>\n[assistant]");  // the end was drawn already
  const auto after_other = chat::tokens_after_answer(text, message("tool", "42"), 'x');
  EXPECT_EQ(shown(text, *after_other), "<|end|>\n[tool]42<|end|>\n[assistant]");
  EXPECT_FALSE(chat::tokens_after_answer(text, message("robot", "42"), 'x'));
}

TEST(AppendedTurn, StandsBetweenLineEndsWithoutATemplate) {
  const auto text = text_with({});
  EXPECT_EQ(shown(text, *chat::tokens_after_answer(text, message("user", "No."), 'x')), "\nNo.\n");
}

TEST(AppendedTurn, IsCutInItsMiddle) {
  const auto text = text_with({});
  EXPECT_EQ(chat::cut_in_the_middle(text, "0123456789", 10), "0123456789");
  const std::string cut = chat::cut_in_the_middle(text, std::string(50, 'a') + std::string(50, 'b'), 30);
  EXPECT_EQ(cut, "aaaaaaaa\n… (cut) …\nbbbbbbb");
  EXPECT_EQ(chat::cut_in_the_middle(text, "0123456789", 5), "01289");
}

}  // namespace
}  // namespace muster::data

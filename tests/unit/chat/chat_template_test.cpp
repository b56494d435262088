#include "chat/chat_template.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace muster::chat {
namespace {

using Json = nlohmann::ordered_json;

std::string render(std::string_view source, const Json& variables = Json::object(), const RenderOptions& options = {}) {
  const auto parsed = ChatTemplate::parse(source, "test");
  if (!parsed) return "refused: " + parsed.error().what;
  const auto rendered = parsed->render(variables, options);
  return rendered ? rendered->text : "failed: " + rendered.error().what;
}

TEST(ChatTemplate, NamesTheLineOfWhatItRefuses) {
  EXPECT_EQ(render("a\nb\n{% include 'x' %}"),
            "refused: test: line 3: {% include %} is not known: a chat template is one text");
  EXPECT_EQ(render("{{ x|uper }}"), "refused: test: line 1: there is no filter 'uper'; did you mean 'upper'?");
  EXPECT_EQ(render("\n{{ x is strin }}"), "refused: test: line 2: there is no test 'strin'; did you mean 'string'?");
  EXPECT_EQ(render("{% if x %}"), "refused: test: line 1: the template ends where {% endif %} is expected");
  EXPECT_EQ(render("{% for x in y recursive %}{% endfor %}"),
            "refused: test: line 1: recursive loops are not known: write a macro");
  EXPECT_EQ(render("\n{{ 'abc }}"), "refused: test: line 2: a string that is not closed");
  EXPECT_EQ(render("\xff"), "refused: test: line 1: the template is not valid UTF-8");
}

TEST(ChatTemplate, NamesTheLineWhereARenderingFails) {
  EXPECT_EQ(render("\n\n{{ raise_exception('no ' ~ 2) }}"),
            "failed: test: line 3: the template refuses this conversation: no 2");
  EXPECT_EQ(render("\n{{ missing.name }}"), "failed: test: line 2: 'missing' is undefined");
  EXPECT_EQ(render("{% set x = 1 %}\n{{ x + 'a' }}"), "failed: test: line 2: '+' between int and str");
  EXPECT_EQ(render("{{ [].append(1) }}"), "failed: test: line 1: 'append' of list is closed to templates");
  EXPECT_EQ(render("{{ 170141183460469231731687303715884105727 + 1 }}"),
            "failed: test: line 1: '+' gives an integer of more than 127 bits");
}

TEST(ChatTemplate, KeepsWhatTheModelWouldHaveWrittenAsSpansOfBytes) {
  const auto parsed =
      ChatTemplate::parse("é{% generation %}ü{{ x }}{% endgeneration %}-{% generation %}{% endgeneration %}", "test");
  const auto rendered = parsed->render({{"x", "yz"}});
  EXPECT_EQ(rendered->text, "éüyz-");
  EXPECT_EQ(rendered->generated, (std::vector<ChatTemplate::Span>{{2, 6}, {7, 7}}));
}

TEST(ChatTemplate, TakesTheTimeAsAnArgument) {
  RenderOptions options;
  options.now = std::tm{};
  options.now->tm_year = 124;
  options.now->tm_mon = 6;
  options.now->tm_mday = 26;
  const auto parsed = ChatTemplate::parse("{{ strftime_now('%d %b %Y') }}", "test");
  EXPECT_EQ(parsed->render(Json::object(), options)->text, "26 Jul 2024");
}

// Templates come from strangers: none may hang, run out of memory or out of stack.
TEST(ChatTemplate, EndsWhateverATemplateAsksFor) {
  const std::string endless[] = {
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(x='a') %}{% for a in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=[1]) %}{% for a in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=[1]) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{{ 'abc' * 999999999999 }}",
      "{{ [1] * 99999999999999999999 }}",
      "{{ 'a'.rjust(999999999) }}",
      "{{ '%999999999d' % 1 }}",
      "{{ ('a' * 9999999).replace('', 'b' * 9999999) }}",
      "{% for a in range(99999) %}{{ 'x' in 'y' * 99999 }}{% endfor %}",
  };
  RenderOptions options;
  options.most_work = 1'000'000;
  options.most_bytes = 20'000'000;
  for (const std::string& source : endless)
    EXPECT_TRUE(render(source, Json::object(), options).starts_with("failed: ")) << source;
  const std::string deep(100000, '(');
  EXPECT_TRUE(render("{{ " + deep + " }}").starts_with("refused: "));
  std::string blocks, sums = "{{ 1";
  for (int i = 0; i < 5000; ++i) blocks += "{% if 1 %}";
  for (int i = 0; i < 5000; ++i) sums += "+1";
  EXPECT_TRUE(render(blocks).starts_with("refused: "));
  EXPECT_TRUE(render(sums + " }}").starts_with("refused: "));
}

// What holds itself must still be given back: the sanitizer's leak check sees to it.
TEST(ChatTemplate, LetsGoOfNamespacesAndMacrosThatHoldThemselves) {
  EXPECT_EQ(
      render("{% set ns = namespace() %}{% set ns.me = ns %}{% macro f() %}x{% endmacro %}{% set ns.f = f %}"
             "{% for i in [1] %}{% macro g() %}{{ g.name }}{% endmacro %}{% set ns.g = g %}{% endfor %}{{ ns.f() }}"),
      "x");
}

TEST(ChatTemplate, CanBeUsedFromManyThreadsAtOnce) {
  const auto parsed = ChatTemplate::parse("{% for m in messages %}{{ m.content|upper }}{% endfor %}", "test");
  const Json variables{{"messages", {{{"content", "a"}}, {{"content", "b"}}}}};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 200; ++j) EXPECT_EQ(parsed->render(variables)->text, "AB");
    });
}

}  // namespace
}  // namespace muster::chat

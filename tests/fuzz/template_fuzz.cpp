// Feeds mutated chat templates and mutated conversations to the template engine: template_fuzz [--inputs N] [--seed S].
// A crash, a sanitizer report or an input that takes longer than ten seconds ends it, with the input on standard error.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/text.hpp"
#include "chat/chat_template.hpp"

namespace muster::chat {
namespace {

std::string current_input;  // for the signal handler, which can reach nothing else

extern "C" void show_input(int) {
  constexpr std::string_view title = "\ntemplate_fuzz: too slow, or aborted, on this input:\n";
  static_cast<void>(!::write(STDERR_FILENO, title.data(), title.size()));
  static_cast<void>(!::write(STDERR_FILENO, current_input.data(), current_input.size()));
  ::_exit(1);
}

constexpr std::string_view words[] = {"{{ ",
                                      " }}",
                                      "{% ",
                                      " %}",
                                      "{%- ",
                                      " -%}",
                                      "{# ",
                                      " #}",
                                      "{% raw %}",
                                      "{% endraw %}",
                                      "for x in ",
                                      "endfor",
                                      "if ",
                                      "else",
                                      "elif ",
                                      "endif",
                                      "set ",
                                      "endset",
                                      "macro m(a, b=1)",
                                      "endmacro",
                                      "m(1)",
                                      "call m()",
                                      "endcall",
                                      "caller()",
                                      "filter upper",
                                      "endfilter",
                                      "with a=1",
                                      "endwith",
                                      "generation",
                                      "endgeneration",
                                      "break",
                                      "continue",
                                      "namespace(x=1)",
                                      "ns.x = ",
                                      "loop.",
                                      "index",
                                      "previtem",
                                      "cycle(1, 2)",
                                      "messages",
                                      "tools",
                                      "bos_token",
                                      "message.content",
                                      "['role']",
                                      "[1:-1:2]",
                                      "[::-1]",
                                      "|",
                                      "|trim",
                                      "|tojson(indent=2)",
                                      "|join(', ')",
                                      "|map(attribute='role')",
                                      "|selectattr('role', 'equalto', 'user')",
                                      "|list",
                                      "|sort",
                                      "|dictsort",
                                      "|replace('a', 'bb')",
                                      "|indent(3)",
                                      "|default('x')",
                                      "|batch(2)",
                                      "|groupby('role')",
                                      "|unique",
                                      "|round(2)",
                                      "|int",
                                      "|safe",
                                      "|e",
                                      "|center(30)",
                                      "|format(1)",
                                      "|slice(2)",
                                      " is defined",
                                      " is string",
                                      " is not none",
                                      " is divisibleby 3",
                                      " is in ",
                                      ".split(",
                                      ".strip()",
                                      ".items()",
                                      ".get('role')",
                                      ".format(",
                                      ".rjust(9)",
                                      ".title()",
                                      "range(9)",
                                      "dict(a=1)",
                                      "raise_exception('x')",
                                      "strftime_now('%Y')",
                                      "joiner()",
                                      "cycler(1)",
                                      " ~ ",
                                      " + ",
                                      " * ",
                                      " ** ",
                                      " // ",
                                      " % ",
                                      " in ",
                                      " not ",
                                      " and ",
                                      " or ",
                                      " == ",
                                      " < ",
                                      "(",
                                      ")",
                                      "[",
                                      "]",
                                      "{",
                                      "}",
                                      ",",
                                      ":",
                                      "=",
                                      "'",
                                      "\"",
                                      "\\",
                                      "\\u00e9",
                                      "none",
                                      "true",
                                      "1",
                                      "0",
                                      "-1",
                                      "2.5",
                                      "1e308",
                                      "99999999999",
                                      "0x1f",
                                      "'%s %d'",
                                      "'é世'",
                                      "*",
                                      "**",
                                      "\n",
                                      " ",
                                      "\xff",
                                      "\xe4\xb8",
                                      "\xc2\xa0"};

class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::uint64_t seed) : corpus_(std::move(corpus)), random_(seed) {}
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  std::string next() {
    std::string text = corpus_[below(corpus_.size())];
    if (text.size() > 600 && below(4) != 0) text = text.substr(below(text.size()), 600);
    for (std::size_t changes = below(6); changes > 0; --changes) change(text);
    if (below(3) == 0) text += "{{ " + expression() + " }}";
    return text.substr(0, 6000);
  }

 private:
  std::string expression() {
    std::string text;
    for (std::size_t count = 1 + below(8); count > 0; --count) text += words[below(std::size(words))];
    return text;
  }

  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 1:
        text.insert(at, words[below(std::size(words))]);
        break;
      case 2:
        text.erase(at, below(12));
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(80)));
        break;
      case 4: {
        const std::string& other = corpus_[below(corpus_.size())];
        text.insert(at, other.substr(below(other.size()), below(200)));
        break;
      }
      default:
        text.replace(at, below(10), words[below(std::size(words))]);
    }
  }

  std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

// Templates that the tests hold against transformers, and some that use every part of the language.
std::vector<std::string> seed_templates() {
  std::vector<std::string> texts{
      "{% set ns = namespace(x=0, l=[]) %}{% for m in messages if m.role != 'x' %}{% set ns.x = ns.x + loop.index %}{% "
      "set ns.l = ns.l + [m] %}"
      "{{ loop.previtem.role }}{{ m.content|trim|replace('a', 'b') }}{% else %}none{% endfor %}{{ ns.l|tojson }}",
      "{% macro f(x, n=3) %}{% if n > 0 %}{{ x }}{{ f(x ~ n, n - 1) }}{% endif %}{% endmacro %}{{ f('é') }}{% call "
      "f(1) %}{{ caller }}{% endcall %}",
      "{% for k, v in tools[0]|dictsort %}{{ '%-10s=%r' % (k, v) }}{{ v|string|list|batch(3)|list }}{% endfor %}",
      "{%- for a in range(5) -%}{%- for b in 'wörld'[::-1] -%}{% if b == 'r' %}{% continue %}{% endif %}{{ a * b }}{%- "
      "endfor -%}{% endfor %}"};
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_CORPUS)) {
    if (entry.path().extension() != ".py") continue;
    const std::string text = read_file(entry.path()).value();
    for (const std::string& part : split(text, '"'))
      if (part.find("{%") != std::string::npos) texts.push_back(part);
  }
  return texts;
}

nlohmann::ordered_json variables() {
  return nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": " Grüße, 世界 "}, {"role": "assistant", "content": null,
      "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": [1, 2.5, true, null, "x"]}}}]}, {"role": "tool", "content": "3"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "array"}}}}}],
    "documents": null, "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})");
}

int run(std::size_t inputs, std::uint64_t seed) {
  Mutator mutator(seed_templates(), seed);
  const auto given = variables();
  RenderOptions options;
  options.most_work = 200'000;
  options.most_bytes = 4'000'000;
  std::size_t parsed = 0, rendered = 0;
  ::signal(SIGALRM, show_input);
  ::signal(SIGABRT, show_input);
  for (std::size_t i = 0; i < inputs; ++i) {
    current_input = mutator.next();
    ::alarm(10);
    const auto made = ChatTemplate::parse(current_input, "fuzz");
    if (!made) continue;
    ++parsed;
    if (const auto text = made->render(given, options)) {
      ++rendered;
      for (const auto& span : text->generated)
        if (span.begin > span.end || span.end > text->text.size()) std::abort();
    }
  }
  fmt::print("{} inputs, {} parsed, {} rendered\n", inputs, parsed, rendered);
  return parsed > inputs / 100 && rendered > inputs / 200 ? 0 : 1;  // else it would try nothing
}

}  // namespace
}  // namespace muster::chat

int main(int argc, char** argv) {
  std::size_t inputs = 20'000;
  std::uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--inputs") == 0) inputs = std::stoul(argv[i + 1]);
    if (std::strcmp(argv[i], "--seed") == 0) seed = std::stoul(argv[i + 1]);
  }
  return muster::chat::run(inputs, seed);
}

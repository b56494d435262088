// Feeds mutated chat templates and mutated conversations to the template engine: template_fuzz [--inputs N] [--seed S].
// A crash, a sanitizer report or an input that takes far too long ends it, with the input on standard error.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "system/files.hpp"
#include "base/text.hpp"
#include "chat/chat_template.hpp"
#include "fuzz/fuzz_frame.hpp"

namespace muster::chat {
namespace {

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

constexpr std::string_view atoms[] = {"messages",
                                      "tools",
                                      "bos_token",
                                      "x",
                                      "m",
                                      "ns",
                                      "loop",
                                      "nothing",
                                      "none",
                                      "true",
                                      "1",
                                      "-3",
                                      "2.5",
                                      "1e308",
                                      "'Grüße %s %d'",
                                      "''",
                                      "' a b\\n c '",
                                      "[]",
                                      "{}",
                                      "(1, 'x')",
                                      "range(7)",
                                      "messages[1]",
                                      "tools[0].function"};
constexpr std::string_view operators[] = {" + ",  " - ", " * ",  " / ",  " // ",     " % ",   " ** ", " ~ ",
                                          " == ", " < ", " >= ", " in ", " not in ", " and ", " or "};
constexpr std::string_view filters[] = {"|trim",
                                        "|upper",
                                        "|title",
                                        "|capitalize",
                                        "|replace('a', 'bb')",
                                        "|string",
                                        "|safe",
                                        "|e",
                                        "|indent(3, true)",
                                        "|center(20)",
                                        "|truncate(5)",
                                        "|wordcount",
                                        "|format(1, 2)",
                                        "|tojson",
                                        "|tojson(indent=2, sort_keys=true)",
                                        "|length",
                                        "|default('d', true)",
                                        "|join('-')",
                                        "|first",
                                        "|last",
                                        "|list",
                                        "|items|list",
                                        "|map('upper')|list",
                                        "|map(attribute='role')|list",
                                        "|select('string')|list",
                                        "|rejectattr('content')|list",
                                        "|sort",
                                        "|sort(attribute='role')",
                                        "|dictsort",
                                        "|unique|list",
                                        "|min",
                                        "|max",
                                        "|sum",
                                        "|reverse|list",
                                        "|batch(2, 0)|list",
                                        "|slice(3)|list",
                                        "|groupby('role')",
                                        "|int",
                                        "|float",
                                        "|abs",
                                        "|round(1)",
                                        "|attr('x')"};
constexpr std::string_view tests[] = {"defined",     "none",   "string",   "mapping",       "iterable",
                                      "sequence",    "number", "odd",      "divisibleby 3", "in messages",
                                      "sameas none", "upper",  "callable", "gt 2"};
constexpr std::string_view methods[] = {".role",
                                        ".content",
                                        ".x",
                                        ".strip()",
                                        ".split()",
                                        ".split('a', 1)",
                                        ".rsplit(none, 1)",
                                        ".splitlines()",
                                        ".title()",
                                        ".replace('r', 'é')",
                                        ".startswith('a')",
                                        ".find('ü')",
                                        ".join(['a', 'b'])",
                                        ".rjust(9, '*')",
                                        ".zfill(9)",
                                        ".format(1, x=2)",
                                        ".items()",
                                        ".keys()",
                                        ".get('role', 1)",
                                        ".index(1)",
                                        ".count('a')",
                                        "(1)",
                                        "(x=2)",
                                        ".partition(' ')",
                                        ".isalpha()",
                                        ".append(1)",
                                        ".index",
                                        ".cycle(1, 2)",
                                        ".__class__"};
constexpr std::string_view slices[] = {":",      "1:", ":-1", "::-1",   "1:3",      "-99:99:2",
                                       "5:1:-2", "0",  "-1",  "'role'", "none:none"};

class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::uint64_t seed) : corpus_(std::move(corpus)), random_(seed) {}
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  // Half are templates that others wrote, damaged; half are made here and right at first.
  std::string next() {
    std::string text = below(2) == 0 ? made(3) : corpus_[below(corpus_.size())];
    for (std::size_t changes = below(2) == 0 ? 0 : below(5); changes > 0; --changes) change(text);
    return text.substr(0, 6000);
  }

 private:
  template <std::size_t size>
  std::string one_of(const std::string_view (&options)[size]) {
    return std::string(options[below(size)]);
  }

  std::string expression(int depth) {
    if (depth <= 0) return one_of(atoms);
    const auto inner = [&] { return expression(depth - 1 - static_cast<int>(below(2))); };
    switch (below(9)) {
      case 0:
        return "(" + inner() + one_of(operators) + inner() + ")";
      case 1:
      case 2:
        return "(" + inner() + one_of(filters) + ")";
      case 3:
        return "(" + inner() + " is " + one_of(tests) + ")";
      case 4:
        return inner() + one_of(methods);
      case 5:
        return inner() + "[" + one_of(slices) + "]";
      case 6:
        return inner() + "[" + inner() + "]";
      case 7:
        return "(" + inner() + " if " + inner() + " else " + inner() + ")";
      default:
        return "[" + inner() + ", {'k': " + inner() + "}]";
    }
  }

  std::string made(int depth) {
    std::string text;
    for (std::size_t count = 1 + below(3); count > 0; --count) {
      const std::size_t kind = depth > 0 ? below(9) : 0;
      const auto block = [&](std::string_view begin, std::string_view end) {
        text += fmt::format("{{% {} %}}{}{{% {} %}}", begin, made(depth - 1), end);
      };
      if (kind < 3) text += "{{ " + expression(4) + " }}";
      if (kind == 3) block("if " + expression(2), "endif");
      if (kind == 4) block("for x in " + expression(2), "endfor");
      if (kind == 5) text += "{% set ns = namespace(x=" + expression(2) + ") %}{% set ns.x = [ns, ns.x] %}";
      if (kind == 6) block("set x", "endset");
      if (kind == 7) block("macro m(x, n=" + expression(1) + ")", "endmacro"), text += "{{ m(" + expression(1) + ") }}";
      if (kind == 8) block("generation", "endgeneration");
    }
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
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_CORPUS "/peer/chat_templates")) {
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

class Fuzzer {
 public:
  explicit Fuzzer(std::uint64_t seed) : mutator_(seed_templates(), seed) {
    options_.most_work = 200'000;
    options_.most_bytes = 4'000'000;
  }

  void one() {
    ++tried_;
    fuzz::watched = mutator_.next();
    const auto made = ChatTemplate::parse(fuzz::watched, "fuzz");
    if (!made) return;
    ++parsed_;
    const auto text = made->render(given_, options_);
    if (!text) return;
    ++rendered_;
    for (const auto& span : text->generated)
      if (span.begin > span.end || span.end > text->text.size()) std::abort();
  }
  std::vector<fuzz::Reached> reached() const {
    return {{"parsed", parsed_, tried_ / 100}, {"rendered", rendered_, tried_ / 200}};
  }

 private:
  Mutator mutator_;
  const nlohmann::ordered_json given_ = variables();
  RenderOptions options_;
  std::size_t tried_ = 0, parsed_ = 0, rendered_ = 0;
};

}  // namespace
}  // namespace muster::chat

int main(int count, char** words) {
  return muster::fuzz::run<muster::chat::Fuzzer>("template_fuzz", count, words, 20'000, 1'000);
}

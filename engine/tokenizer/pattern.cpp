#include "tokenizer/pattern.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "tokenizer/pattern_syntax.hpp"
#include "tokenizer/pool.hpp"
#include "tokenizer/symbol_table.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

// Note [Effort of a pattern]: a stranger's pattern may need exponential time at one place of a text, or scan the whole
// rest of it from every place. The first is bounded by PCRE2's own count, which grows with the text since honest
// patterns go back over long runs once. For the second a call tries few places, fewer in longer texts, and the clock is
// looked at between calls. Neither bound changes a result: a search ends as it would or not at all.
constexpr std::uint32_t steps_at_a_place = 200'000;
constexpr std::uint32_t steps_for_a_character = 16;
constexpr std::uint32_t most_kibibytes = 262'144;
constexpr std::size_t first_stack = 32 << 10, largest_stack = 8 << 20;
constexpr auto patience = std::chrono::seconds(5);
constexpr auto patience_for_a_byte = std::chrono::microseconds(10);

template <auto Free>
struct Freed {
  template <class Thing>
  void operator()(Thing* thing) const {
    Free(thing);
  }
};
using Code = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;

// What one search needs.
struct Scratch {
  std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>> matches;
  std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>> context;
  std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>> stack;
  std::string symbols;
};

std::unique_ptr<Scratch> make_scratch(const pcre2_code* code) {
  auto scratch = std::make_unique<Scratch>();
  scratch->matches.reset(pcre2_match_data_create_from_pattern(code, nullptr));
  scratch->context.reset(pcre2_match_context_create(nullptr));
  scratch->stack.reset(pcre2_jit_stack_create(first_stack, largest_stack, nullptr));
  if (!scratch->matches || !scratch->context || !scratch->stack) throw std::bad_alloc();
  pcre2_jit_stack_assign(scratch->context.get(), nullptr, scratch->stack.get());
  pcre2_set_heap_limit(scratch->context.get(), most_kibibytes);
  return scratch;
}

PCRE2_SPTR units(const std::string& text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

// The fragments as PCRE2 reads them: sets become sets of symbols.
std::string spell(const PatternSyntax& syntax, const SymbolTable& table) {
  std::string spelled;
  for (const PatternFragment& fragment : syntax.fragments) {
    if (!fragment.syntax.empty()) {
      spelled += fragment.syntax;
      continue;
    }
    const auto& members = table.symbols_of(fragment.set);
    if (members.empty()) {
      spelled += "(?!)";
      continue;
    }
    spelled += "[";
    for (const std::uint8_t symbol : members) spelled += fmt::format("\\x{:02x}", symbol);
    spelled += "]";
  }
  return spelled;
}

std::string message(int code) {
  std::string text(200, '\0');
  const int length = pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return text;
}

}  // namespace

struct Pattern::Program {
  std::string written;  // as the file has it, for messages
  SymbolTable table;
  Code code;
  mutable Pool<Scratch> scratches;
};

namespace {

// One search through one text, as symbols: places are characters, not bytes.
class Search {
 public:
  Search(const pcre2_code* code, Scratch& scratch, std::string_view written)
      : code_(code), scratch_(scratch), written_(written) {
    const std::size_t length = scratch.symbols.size();
    window_ = std::clamp<std::size_t>((std::size_t{1} << 22U) / (length + 1), 1, 256);
    const auto steps = steps_at_a_place + steps_for_a_character * static_cast<std::uint64_t>(length);
    pcre2_set_match_limit(scratch.context.get(),
                          static_cast<std::uint32_t>(std::min<std::uint64_t>(steps, 2'000'000'000)));
    deadline_ = std::chrono::steady_clock::now() + patience + length * patience_for_a_byte;
  }

  // The first match at or after `from`.
  std::optional<Stretch> next(std::size_t from) {
    const std::size_t length = scratch_.symbols.size();
    for (; from <= length; from += window_) {
      if (++calls_ % 64 == 0 || window_ < 64) check_clock();
      pcre2_set_offset_limit(scratch_.context.get(), std::min(from + window_ - 1, length));
      const int found = match(from);
      if (found == PCRE2_ERROR_NOMATCH) continue;
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch_.matches.get());
      return Stretch{bounds[0], bounds[1], true};
    }
    return std::nullopt;
  }

 private:
  int match(std::size_t from) {
    for (const std::uint32_t options : {0U, PCRE2_NO_JIT}) {
      const int found = pcre2_match(code_, units(scratch_.symbols), scratch_.symbols.size(), from, options,
                                    scratch_.matches.get(), scratch_.context.get());
      if (found >= 0 || found == PCRE2_ERROR_NOMATCH) return found;
      if (found != PCRE2_ERROR_JIT_STACKLIMIT) fail(message(found));
    }
    fail("it needs too much memory");
  }

  void check_clock() const {
    if (std::chrono::steady_clock::now() > deadline_) fail("it takes too long");
  }

  [[noreturn]] void fail(std::string_view why) const {
    throw PatternFailure(
        fmt::format("the pattern {:.200} of the tokenizer cannot be matched on a text of {} characters: {}", written_,
                    scratch_.symbols.size(), why));
  }

  const pcre2_code* code_;
  Scratch& scratch_;
  std::string_view written_;
  std::size_t window_ = 1;  // places tried in one call
  std::size_t calls_ = 0;
  std::chrono::steady_clock::time_point deadline_;
};

// Turns places in characters, asked for in ascending order, into places in bytes.
class ByteOffsets {
 public:
  explicit ByteOffsets(std::string_view text) : text_(text) {}
  std::size_t at(std::size_t character) {
    for (; character_ < character; ++character_) byte_ += character_length(text_[byte_]);
    return byte_;
  }

 private:
  std::string_view text_;
  std::size_t character_ = 0, byte_ = 0;
};

std::vector<Stretch> find_text(std::string_view looked_for, std::string_view text) {
  std::vector<Stretch> stretches;
  std::size_t done = 0;
  for (std::size_t at; (at = text.find(looked_for, done)) != text.npos; done = at + looked_for.size()) {
    if (at > done) stretches.push_back({done, at, false});
    stretches.push_back({at, at + looked_for.size(), true});
  }
  if (done < text.size()) stretches.push_back({done, text.size(), false});
  return stretches;
}

}  // namespace

Result<Pattern> Pattern::expression(std::string_view expression) {
  auto syntax = parse_pattern(expression);
  if (!syntax) return syntax.error();
  const auto refusal = [&](std::string_view why) {
    return Error{Error::Kind::bad_input, fmt::format("the pattern {:.200} cannot be used: {}", expression, why),
                 "write the pattern in a simpler way"};
  };
  auto table = SymbolTable::build(syntax->sets);
  if (!table) return refusal("it tells more than 256 kinds of characters apart");
  const std::string spelled = spell(*syntax, *table);
  int failure = 0;
  PCRE2_SIZE where = 0;
  Code code(
      pcre2_compile(units(spelled), spelled.size(), PCRE2_USE_OFFSET_LIMIT | PCRE2_DOTALL, &failure, &where, nullptr));
  if (!code) return refusal(message(failure));
  // Where machine code may not be made, the interpreter matches.
  static_cast<void>(pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE));
  Pattern pattern;
  pattern.program_.reset(new Program{std::string(expression), std::move(*table), std::move(code), {}});
  return pattern;
}

Pattern Pattern::text(std::string text) {
  Pattern pattern;
  if (text.empty()) return expression("").value();  // found between all characters
  pattern.text_ = std::move(text);
  return pattern;
}

std::vector<Stretch> Pattern::find_all(std::string_view text) const {
  if (text.empty()) return {{0, 0, false}};
  if (!program_) return find_text(text_, text);
  auto scratch = program_->scratches.borrow([&] { return make_scratch(program_->code.get()); });
  scratch->symbols.clear();
  for (std::size_t at = 0; at < text.size();) scratch->symbols += program_->table.symbol(next_code_point(text, at));
  Search search(program_->code.get(), *scratch, program_->written);
  ByteOffsets offsets(text);
  std::vector<Stretch> stretches;
  std::size_t from = 0, done = 0;  // in characters; done: the end of the last match
  bool any = false;
  while (const auto match = search.next(from)) {
    if (match->begin == match->end && any &&
        match->end == done) {  // an empty match right after the last one does not count
      from = std::max(from, match->end) + 1;
      continue;
    }
    if (match->begin > done) stretches.push_back({offsets.at(done), offsets.at(match->begin), false});
    const std::size_t begin = offsets.at(match->begin);
    stretches.push_back({begin, offsets.at(match->end), true});
    from = done = match->end;
    any = true;
  }
  if (done < scratch->symbols.size()) stretches.push_back({offsets.at(done), text.size(), false});
  return stretches;
}

}  // namespace muster::tokenizer

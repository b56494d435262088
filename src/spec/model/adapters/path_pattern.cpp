#include "spec/model/adapters/path_pattern.hpp"

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>

namespace muster::spec {
namespace {

constexpr std::size_t longest_path_pattern = 100'000;  // bytes
constexpr std::uint32_t most_match_steps = 1'000'000;

PCRE2_SPTR code_units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string shown_pattern(std::string_view pattern) {
  constexpr std::size_t most = 120;
  return pattern.size() <= most ? std::string(pattern) : std::string(pattern.substr(0, most)) + "…";
}

std::string reason_of(int code) {
  std::array<char, 200> text{};
  const int length = pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : fmt::format("error {}", code);
}

}  // namespace

struct PathPattern::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
  pcre2_code* code;
};

Result<PathPattern> PathPattern::compile(std::string_view pattern) {
  const auto refusal = [&](std::string_view why) {
    return bad_input(fmt::format("\"{}\" is not a pattern: {}", shown_pattern(pattern), why),
                     "a regular expression that matches whole paths, such as .*\\.(q_proj|v_proj)");
  };
  if (pattern.size() > longest_path_pattern)
    return refusal(fmt::format("{} bytes, and {} are the most", pattern.size(), longest_path_pattern));
  int failure = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* code = pcre2_compile(code_units(pattern), pattern.size(), PCRE2_ANCHORED | PCRE2_ENDANCHORED, &failure,
                                   &place, nullptr);
  if (code == nullptr) return refusal(fmt::format("{} at byte {}", reason_of(failure), place));
  return PathPattern(std::string(pattern), std::make_shared<const Code>(code));
}

Result<bool> PathPattern::matches(std::string_view path) const {
  const auto freed_match = [](pcre2_match_data* data) { pcre2_match_data_free(data); };
  const auto freed_context = [](pcre2_match_context* context) { pcre2_match_context_free(context); };
  const std::unique_ptr<pcre2_match_data, decltype(freed_match)> match(
      pcre2_match_data_create_from_pattern(code_->code, nullptr), freed_match);
  const std::unique_ptr<pcre2_match_context, decltype(freed_context)> context(pcre2_match_context_create(nullptr),
                                                                             freed_context);
  if (match == nullptr || context == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(context.get(), most_match_steps);
  const int found = pcre2_match(code_->code, code_units(path), path.size(), 0, 0, match.get(), context.get());
  if (found >= 0) return true;
  if (found == PCRE2_ERROR_NOMATCH) return false;
  return bad_input(fmt::format("the pattern \"{}\" could not be matched with {}: {}", shown_pattern(text_), path,
                               reason_of(found)),
                   "use a simpler pattern, or a list of names");
}

bool is_module_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

}  // namespace muster::spec

#include "reward/math/last_number.hpp"

#include "reward/math/character_class.hpp"

namespace muster::reward::math {
namespace {

std::size_t digits_at(std::string_view text, std::size_t at) {
  std::size_t count = 0;
  while (at + count < text.size() && is_digit(text[at + count])) ++count;
  return count;
}

std::string in_one_way(bool negative, std::string whole, std::string fraction) {
  whole.erase(0, whole.find_first_not_of('0'));
  if (whole.find_first_not_of('0') == std::string::npos) whole = "0";
  while (fraction.ends_with('0')) fraction.pop_back();
  const bool zero = whole == "0" && fraction.empty();
  return (negative && !zero ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction);
}

}  // namespace

std::optional<std::string> last_number(std::string_view text) {
  std::optional<std::string> found;
  for (std::size_t at = 0; at < text.size();) {
    const bool bare_fraction = text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1]);
    if (!is_digit(text[at]) && !bare_fraction) {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    std::string whole, fraction;
    const std::size_t first = digits_at(text, at);
    whole = text.substr(at, first);
    at += first;
    // 1,234,567: at most three digits, then groups of three.
    while (first >= 1 && first <= 3 && at < text.size() && text[at] == ',' && digits_at(text, at + 1) == 3) {
      whole += text.substr(at + 1, 3);
      at += 4;
    }
    if (at < text.size() && text[at] == '.') {
      const std::size_t count = digits_at(text, at + 1);
      fraction = text.substr(at + 1, count);
      at += count + 1;
    }
    // A minus between two numbers or words is none of the number's.
    const bool negative = begin > 0 && text[begin - 1] == '-' &&
                          (begin == 1 || (!is_digit(text[begin - 2]) && !is_letter(text[begin - 2]) && text[begin - 2] != ')'));
    found = in_one_way(negative, std::move(whole), std::move(fraction));
  }
  return found;
}

}  // namespace muster::reward::math

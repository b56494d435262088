#include "reward/math/check.hpp"

#include "reward/math/clean_text.hpp"
#include "reward/math/compare.hpp"
#include "reward/math/final_answer.hpp"

namespace muster::reward::math {

Verdict compare_answers(std::string_view right, std::string_view given) {
  const std::string right_text = clean(right), given_text = clean(given);
  if (given_text.empty()) return Verdict::different;
  if (folded(right_text) == folded(given_text)) return Verdict::equal;
  const auto right_form = parse_form(right_text);
  if (!std::holds_alternative<Form>(right_form)) return Verdict::unknown;
  const auto given_form = parse_form(given_text);
  if (const auto* why = std::get_if<Unreadable>(&given_form))
    return *why == Unreadable::malformed ? Verdict::different : Verdict::unknown;
  return compare(std::get<Form>(right_form), std::get<Form>(given_form));
}

Verdict check(std::string_view right, std::string_view completion) {
  return compare_answers(final_answer(right), final_answer(completion));
}

}  // namespace muster::reward::math

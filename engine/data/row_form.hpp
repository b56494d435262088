// What the rows of a user's data are, as what is trained by says.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::data {

enum class RowForm {
  examples,           // parse_training_row
  preferences,        // parse_preference_row: each row gives two samples, the chosen one first
  whole_preferences,  // the same; of the chosen one the prompt is trained on as well
  comparisons,        // parse_comparison: each row gives two samples, the better one first, that are scored at their ends
  judgements,         // parse_judgements: each answer gives a sample with a label, and then its prompt with the answer before it
};

// Samples of a row, which follow each other.
constexpr std::int64_t samples_together(RowForm form) { return form == RowForm::examples ? 1 : 2; }

// Part of the names of token files.
constexpr std::string_view name(RowForm form) {
  if (form == RowForm::examples) return "examples";
  if (form == RowForm::judgements) return "judgements";
  if (form == RowForm::comparisons) return "comparisons";
  return form == RowForm::preferences ? "preferences" : "whole preferences";
}

}  // namespace muster::data

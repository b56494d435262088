// Python's ways to put values into text, and the slices of texts and lists.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat/object.hpp"
#include "chat/value.hpp"

namespace muster::chat {

// & < > ' " as HTML writes them.
std::string escape_html(std::string_view text);

// "%s is %d" % arguments: a tuple, a mapping, or one value.
Value format_percent(Evaluation& evaluation, const Value& pattern, const Value& arguments);
// "{} {name}".format(…): fields by position or name, without conversions and formats.
Value format_braces(Evaluation& evaluation, const Value& pattern, const Arguments& arguments);

// subject[first:last:stride]; absent bounds reach to the end.
Value slice_of(Evaluation& evaluation, const Value& subject, std::optional<Integer> first, std::optional<Integer> last,
               std::optional<Integer> stride);

}  // namespace muster::chat

// "a.b=value" arguments laid over a document, as if they were in the file.
#pragma once

#include <string>
#include <vector>

#include "base/document.hpp"
#include "base/error.hpp"

namespace muster::experiment {

// What an argument set has line 0 and, as its column, the argument's number: location_of() finds it again. Keys
// that contain dots are found where they are in the document.
void apply_overrides(Node& root, const std::vector<std::string>& overrides, std::vector<Problem>& problems);

// Whether it came from an argument.
inline bool is_override(TextPosition position) { return position.line == 0; }
// "file.yaml:3:5", or the argument.
std::string location_of(std::string_view source, const std::vector<std::string>& overrides, TextPosition position);

}  // namespace muster::experiment

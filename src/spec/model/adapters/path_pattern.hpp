// Regular expressions over the paths of modules, as adapters name them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace muster::spec {

// Python's syntax, as far as PCRE2 shares it: groups, classes, repetitions, assertions.
class PathPattern {
 public:
  // Refused, with the place: what is not a regular expression.
  static Result<PathPattern> compile(std::string_view pattern);

  // Python's re.fullmatch. Refused: a pattern that would take too long.
  Result<bool> matches(std::string_view path) const;

 private:
  struct Code;
  PathPattern(std::string text, std::shared_ptr<const Code> code) : text_(std::move(text)), code_(std::move(code)) {}

  std::string text_;
  std::shared_ptr<const Code> code_;
};

// Whether modules can be named so: letters, digits, "_", "-" and dots. Any other character makes it a pattern.
bool is_module_name(std::string_view text);

}  // namespace muster::spec

// What checkpoint files hold, compared with what a model asks for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::spec {

struct NamedSizes {
  std::string name;
  Dimensions dimensions;
};

// The names that are held but not wanted. Refused, with names and both sizes: what is wanted and missing, or of another
// size; the first few of them.
Result<std::vector<std::string>> compare_tensors(const std::vector<NamedSizes>& wanted,
                                                 const std::vector<NamedSizes>& held, std::string_view source);

// The refusal of a checkpoint for these reasons, one sentence each; the first few are shown.
Error tensors_do_not_fit(const std::vector<std::string>& problems, std::string_view source);

}  // namespace muster::spec

// Tied parameters as the originals see them: groups of names for one tensor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/model/model_shape.hpp"

namespace muster::plan {

struct TiedName {
  std::string dotted;  // the path with a dot at its end
  spec::TensorId tensor{};
};

// All names of one tensor, sorted.
using TieGroup = std::vector<TiedName>;

// In the order of each group's first tensor. (The originals go through a set here: with several groups their order
// varies from run to run.)
std::vector<TieGroup> tie_groups(const spec::ModelShape& shape);

// The names outside a module, of the groups that also have a name inside it. Inside is what contains the module's path
// and a dot anywhere, not only at its beginning: to the originals module "0" holds "layers.10.weight".
std::vector<spec::TensorId> names_outside(const std::vector<TieGroup>& groups, std::string_view module_path);

}  // namespace muster::plan

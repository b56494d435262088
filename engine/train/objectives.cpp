#include "train/objectives.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "train/supervised.hpp"

namespace muster::train {
namespace {

struct ObjectiveRow {
  spec::Algorithm algorithm;
  std::unique_ptr<Objective> (*make)();
};

constexpr std::array objective_table{ObjectiveRow{spec::Algorithm::sft, make_supervised}};

}  // namespace

std::unique_ptr<Objective> make_objective(spec::Algorithm algorithm) {
  const auto found = std::ranges::find(objective_table, algorithm, &ObjectiveRow::algorithm);
  if (found == objective_table.end()) throw std::logic_error("an algorithm without an objective");
  return found->make();
}

}  // namespace muster::train

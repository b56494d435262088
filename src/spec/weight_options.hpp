// Which weights of a model are held in 8 or 4 bits.
#pragma once

#include <string>
#include <vector>

#include "spec/weight_packing.hpp"

namespace muster::spec {

struct WeightOptions {
  WeightPacking packing;
  std::vector<std::string> skipped;  // modules that stay as they are, as llm_int8_skip_modules has them

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("packing", self.packing);
    visit("skipped", self.skipped);
  }
  bool operator==(const WeightOptions&) const = default;
};

}  // namespace muster::spec

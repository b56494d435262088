// The types that models are computed in.
#pragma once

#include <vector>

#include "spec/element_type.hpp"
#include "spec/values.hpp"

namespace muster::spec {

std::vector<Word<ElementType>> words(ElementType);

}  // namespace muster::spec

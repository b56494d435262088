#include "spec/weight_packing.hpp"

namespace muster::spec {

std::vector<Word<PackedCode>> words(PackedCode) {
  return {{"int8", PackedCode::int8}, {"nf4", PackedCode::nf4}, {"fp4", PackedCode::fp4}};
}

}  // namespace muster::spec

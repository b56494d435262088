#include "spec/computed_types.hpp"

namespace muster::spec {

std::vector<Word<ElementType>> words(ElementType) {
  std::vector<Word<ElementType>> computed;
  for (const ElementType type : {ElementType::float32, ElementType::bfloat16, ElementType::float16})
    computed.push_back({name(type), type});
  return computed;
}

}  // namespace muster::spec

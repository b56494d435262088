#include "spec/sft_spec.hpp"

namespace muster::spec {

std::vector<Word<SftMode>> words(SftMode) {
  return {{"behavioral_cloning", SftMode::behavioral_cloning},
          {"world_model", SftMode::world_model},
          {"combined", SftMode::combined}};
}

}  // namespace muster::spec

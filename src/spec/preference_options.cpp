#include "spec/preference_options.hpp"

namespace muster::spec {

std::vector<Word<PairLoss>> words(PairLoss) {
  return {{"sigmoid", PairLoss::sigmoid},     {"hinge", PairLoss::hinge},       {"ipo", PairLoss::ipo},
          {"exo_pair", PairLoss::exo_pair},   {"nca_pair", PairLoss::nca_pair}, {"robust", PairLoss::robust},
          {"bco_pair", PairLoss::bco_pair},   {"sppo_hard", PairLoss::sppo_hard}, {"apo_zero", PairLoss::apo_zero},
          {"apo_down", PairLoss::apo_down},   {"sigmoid_norm", PairLoss::sigmoid_norm}, {"sft", PairLoss::sft}};
}

}  // namespace muster::spec

// What is learnt from preferences, as ranks get it: pairs of answers one of which is preferred, or answers judged alone.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/values.hpp"

namespace muster::spec {

// TRL's names for what DPO minimises.
enum class PairLoss {
  sigmoid,
  hinge,
  ipo,
  exo_pair,
  nca_pair,
  robust,
  bco_pair,
  sppo_hard,
  apo_zero,
  apo_down,
  sigmoid_norm,
  sft,
};
std::vector<Word<PairLoss>> words(PairLoss);

struct WeightedPairLoss {
  PairLoss kind = PairLoss::sigmoid;
  double weight = 1;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("kind", self.kind);
    visit("weight", self.weight);
  }
  bool operator==(const WeightedPairLoss&) const = default;
};

struct PreferenceOptions {
  std::vector<WeightedPairLoss> losses = {};  // of DPO, which are added up
  double beta = 0.1;
  double label_smoothing = 0;   // share of the preferences that are taken to be the wrong way round
  bool reference_free = false;  // the reference finds everything equally likely
  double gamma = 0;             // of SimPO: the margin that is aimed at
  double desirable_weight = 1;  // of KTO
  double undesirable_weight = 1;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("losses", self.losses);
    visit("beta", self.beta);
    visit("label_smoothing", self.label_smoothing);
    visit("reference_free", self.reference_free);
    visit("gamma", self.gamma);
    visit("desirable_weight", self.desirable_weight);
    visit("undesirable_weight", self.undesirable_weight);
  }
  bool operator==(const PreferenceOptions&) const = default;
};

// Whether the rows of its data are pairs of answers.
constexpr bool learns_from_pairs(Algorithm algorithm) {
  return algorithm == Algorithm::dpo || algorithm == Algorithm::simpo || algorithm == Algorithm::orpo ||
         algorithm == Algorithm::reward;
}

constexpr bool learns_from_preferences(Algorithm algorithm) {
  return learns_from_pairs(algorithm) || algorithm == Algorithm::kto;
}
constexpr bool has_reference(Algorithm algorithm) { return algorithm == Algorithm::dpo || algorithm == Algorithm::kto; }

// Samples of its data that belong together: what a batch counts. Of KTO the second one is the prompt with another's answer.
constexpr std::int64_t samples_together(Algorithm algorithm) { return learns_from_preferences(algorithm) ? 2 : 1; }

}  // namespace muster::spec

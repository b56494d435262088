// The settings of algorithms that learn from preferences.
#pragma once

#include <optional>
#include <vector>

#include "spec/preference_options.hpp"

namespace muster::spec {

struct DpoSpec {
  double beta = 0.1;
  bool reference_free = false;
  double label_smoothing = 0;
  std::vector<PairLoss> loss_type{PairLoss::sigmoid};
  std::vector<double> loss_weights;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("beta", &DpoSpec::beta, "how much the policy is held to the reference; for ipo τ").above(0);
    field("reference_free", &DpoSpec::reference_free, "without a reference: as if it found every answer equally likely");
    field("label_smoothing", &DpoSpec::label_smoothing,
          "share of the preferences that are taken to be the wrong way round; for sigmoid (cDPO), robust and exo_pair")
        .at_least(0)
        .below(0.5);
    field("loss_type", &DpoSpec::loss_type, "what is minimised; several are added up");
    field("loss_weights", &DpoSpec::loss_weights, "what each of several loss types counts; empty: 1 each");
  }
};

struct SimpoSpec {
  double beta = 0.1;
  double gamma = 0.5;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("beta", &SimpoSpec::beta, "scale of the difference of mean log-probabilities; the paper takes 2 to 2.5").above(0);
    field("gamma", &SimpoSpec::gamma, "the margin that is aimed at").at_least(0);
  }
};

struct OrpoSpec {
  double beta = 0.1;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("beta", &OrpoSpec::beta, "what the odds ratio counts beside the likelihood of the chosen answer").above(0);
  }
};

struct KtoSpec {
  double beta = 0.1;
  double desirable_weight = 1;
  double undesirable_weight = 1;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("beta", &KtoSpec::beta, "how much the policy is held to the reference").above(0);
    field("desirable_weight", &KtoSpec::desirable_weight, "what an answer counts that is desired").at_least(0);
    field("undesirable_weight", &KtoSpec::undesirable_weight, "what an answer counts that is not desired").at_least(0);
  }
};

}  // namespace muster::spec

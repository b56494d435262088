// What is minimised over a pair of answers to one prompt, as functions of the answers' log-probabilities.
#pragma once

#include <cstdint>

#include "spec/preference_options.hpp"

namespace muster::train {

// A number of each of the two answers.
struct OfPair {
  double chosen = 0;
  double rejected = 0;
};

// A loss, and its derivatives by what it is a function of.
struct PairTerm {
  double loss = 0;
  OfPair slopes;
};

// DPO's losses by TRL's formulas, in double; with sigmoid, label_smoothing makes it cDPO. ratios: the sum over an answer's
// tokens of ln(policy / reference). tokens: of each answer. Not of PairLoss::sft, which is a mean over tokens.
PairTerm pair_loss(spec::PairLoss kind, const spec::PreferenceOptions& options, const OfPair& ratios,
                   const OfPair& tokens);
// −ln σ(β · difference of means − γ). means: of the log-probabilities of an answer's tokens; likewise below.
PairTerm simpo_loss(const spec::PreferenceOptions& options, const OfPair& means);

// −β · ln σ(log odds)
struct OddsTerm : PairTerm {
  double log_odds = 0;  // of the chosen answer over the rejected one
  double log_ratio = 0;  // ln σ(log odds)
};
OddsTerm odds_ratio_loss(const spec::PreferenceOptions& options, const OfPair& means);

}  // namespace muster::train

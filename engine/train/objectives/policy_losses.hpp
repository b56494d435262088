// What is minimised over a token, or over an answer, that a policy sampled: functions of its advantage and of how much
// likelier it has become since.
#pragma once

#include <cstdint>

#include "spec/policy_options.hpp"

namespace muster::train {

// Everything in double, by TRL's formulas.
struct PolicyTerm {
  double loss = 0;
  double slope = 0;  // its derivative by log_ratio
  bool clipped_low = false, clipped_high = false;  // on the side that would have counted
};

// log_ratio: ln(probability now / probability when it was drawn). log_probability: now; only cispo's loss has it.
PolicyTerm policy_term(const spec::PolicyOptions& options, double advantage, double log_ratio, double log_probability);

// Adds what holds a token to the reference: β · ratio · k3, k3 = e^d − d − 1 with d = ln(reference / now). Returns
// ratio · k3.
double hold_to_reference(PolicyTerm& term, double beta, double log_ratio, double log_probability, double reference);

// What a token of an answer counts beside the others of its step, before the step's normalizer.
double share_of_token(const spec::PolicyOptions& options, std::int64_t answer_tokens);

}  // namespace muster::train

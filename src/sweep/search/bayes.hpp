// The Bayesian method: a Gaussian process over scores and one over the logarithms of costs; the next trial is where the
// expected improvement for its cost is largest.
#pragma once

#include "sweep/search/suggest.hpp"
#include "sweep/tried_settings.hpp"

namespace muster::sweep {

// tried: from the same history, with something left to try.
std::optional<Suggestion> suggest_bayes(const SweepSpec& spec, const History& history, const TriedSettings& tried);

}  // namespace muster::sweep

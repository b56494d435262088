#include "train/objectives/pair_losses.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace muster::train {
namespace {

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }  // −ln σ(−x)

double logistic(double x) {
  const double small = std::exp(-std::abs(x));
  return (x >= 0 ? 1 : small) / (1 + small);
}

double logistic_slope(double x) { return logistic(x) * logistic(-x); }

// A function of one number, and its derivative.
struct Curve {
  double value = 0;
  double slope = 0;
};

// −(1 − ε) ln σ(h) − ε ln σ(−h); ε = 0 is plain DPO.
Curve smoothed(double h, double epsilon) {
  return {(1 - epsilon) * softplus(-h) + epsilon * softplus(h), epsilon * logistic(h) - (1 - epsilon) * logistic(-h)};
}

Curve robust(double h, double epsilon) {
  const double scale = 1 / (1 - 2 * epsilon);
  return {((1 - epsilon) * softplus(-h) - epsilon * softplus(h)) * scale,
          -((1 - epsilon) * logistic(-h) + epsilon * logistic(h)) * scale};
}

// The divergence of the policy's preference σ(h) from one that is right in 1 − ε of all cases.
Curve exact_pair(double h, double epsilon) {
  const double right = logistic(h), odds = std::log1p(-epsilon) - std::log(epsilon);
  return {right * (-softplus(-h) - std::log1p(-epsilon)) + (1 - right) * (-softplus(h) - std::log(epsilon)),
          logistic_slope(h) * (h - odds)};
}

// A loss that follows from chosen · scales.chosen − rejected · scales.rejected.
PairTerm of_difference(const Curve& curve, const OfPair& scales) {
  return {curve.value, {curve.slope * scales.chosen, -curve.slope * scales.rejected}};
}

double ln_one_minus_exp(double x) { return x > -std::log(2.0) ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x)); }

}  // namespace

PairTerm pair_loss(spec::PairLoss kind, const spec::PreferenceOptions& options, const OfPair& ratios,
                   const OfPair& tokens) {
  using enum spec::PairLoss;
  const double beta = options.beta, epsilon = options.label_smoothing;
  const OfPair plain{beta, beta}, by_token{1 / tokens.chosen, 1 / tokens.rejected};
  const double a = beta * ratios.chosen, b = beta * ratios.rejected, h = beta * (ratios.chosen - ratios.rejected);
  const double of_means = ratios.chosen / tokens.chosen - ratios.rejected / tokens.rejected;
  switch (kind) {
    case sigmoid:
      return of_difference(smoothed(h, epsilon), plain);
    case hinge:
      return of_difference(h < 1 ? Curve{1 - h, -1} : Curve{}, plain);
    case ipo: {
      const double excess = of_means - 1 / (2 * beta);
      return of_difference({excess * excess, 2 * excess}, by_token);
    }
    case exo_pair:
      return of_difference(exact_pair(h, epsilon), plain);
    case robust:
      return of_difference(train::robust(h, epsilon), plain);
    case sigmoid_norm:
      return of_difference(smoothed(beta * of_means, 0), {beta / tokens.chosen, beta / tokens.rejected});
    case nca_pair:
      return {softplus(-a) + (softplus(a) + softplus(b)) / 2,
              {beta * (logistic(a) / 2 - logistic(-a)), beta * logistic(b) / 2}};
    case bco_pair:
      return {softplus(-a) + softplus(b), {-beta * logistic(-a), beta * logistic(b)}};
    case sppo_hard: {
      const double won = ratios.chosen - 0.5 / beta, lost = ratios.rejected + 0.5 / beta;
      return {won * won + lost * lost, {2 * won, 2 * lost}};
    }
    case apo_zero:
      return {logistic(-a) + logistic(b), {-beta * logistic_slope(a), beta * logistic_slope(b)}};
    case apo_down:
      return {logistic(a) + logistic(-h),
              {beta * (logistic_slope(a) - logistic_slope(h)), beta * logistic_slope(h)}};
    case sft:
      break;
  }
  throw std::logic_error("a likelihood is not a function of a pair");
}

PairTerm simpo_loss(const spec::PreferenceOptions& options, const OfPair& means) {
  return of_difference(smoothed(options.beta * (means.chosen - means.rejected) - options.gamma, 0),
                       {options.beta, options.beta});
}

OddsTerm odds_ratio_loss(const spec::PreferenceOptions& options, const OfPair& means) {
  constexpr double most = -1e-7;  // below it odds are finite
  const double a = std::min(means.chosen, most), b = std::min(means.rejected, most);
  const double log_odds = a - b - ln_one_minus_exp(a) + ln_one_minus_exp(b);
  const Curve curve = smoothed(log_odds, 0);
  OddsTerm term;
  term.loss = options.beta * curve.value;
  term.slopes = {-options.beta * curve.slope / std::expm1(a), options.beta * curve.slope / std::expm1(b)};
  term.log_odds = log_odds;
  term.log_ratio = -curve.value;
  return term;
}

}  // namespace muster::train

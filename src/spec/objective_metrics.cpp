#include "spec/objective_metrics.hpp"

#include <array>

namespace muster::spec {
namespace {

// TRL's names. The last three are ORPO's.
constexpr std::array<std::string_view, 9> of_pairs{
    "rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen",
    "logps/rejected", "nll_loss",         "log_odds_ratio",     "log_odds_chosen"};

constexpr std::array<std::string_view, 6> of_judgements{
    "rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected", "kl"};

}  // namespace

std::span<const std::string_view> metrics_beside_loss(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::dpo:
    case Algorithm::simpo:
      return std::span(of_pairs).first(6);
    case Algorithm::orpo:
      return of_pairs;
    case Algorithm::kto:
      return of_judgements;
    case Algorithm::sft:
    case Algorithm::grpo:
    case Algorithm::ppo:
    case Algorithm::pita:
    case Algorithm::qsharp:
      break;
  }
  return {};
}

}  // namespace muster::spec

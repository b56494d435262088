#include "spec/objective_metrics.hpp"

namespace muster::spec {

std::span<const std::string_view> metrics_beside_loss(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::sft:
    case Algorithm::dpo:
    case Algorithm::grpo:
    case Algorithm::ppo:
    case Algorithm::pita:
    case Algorithm::qsharp:
      break;
  }
  return {};
}

}  // namespace muster::spec

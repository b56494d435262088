#include "spec/policy_options.hpp"

namespace muster::spec {

std::vector<Word<PolicyLoss>> words(PolicyLoss) {
  return {{"dapo", PolicyLoss::dapo},   {"grpo", PolicyLoss::grpo},   {"dr_grpo", PolicyLoss::dr_grpo},
          {"luspo", PolicyLoss::luspo}, {"cispo", PolicyLoss::cispo}, {"sapo", PolicyLoss::sapo}};
}

std::vector<Word<RatioLevel>> words(RatioLevel) {
  return {{"token", RatioLevel::token}, {"sequence", RatioLevel::sequence}, {"product", RatioLevel::product}};
}

std::vector<Word<RewardScale>> words(RewardScale) {
  return {{"group", RewardScale::group},
          {"batch", RewardScale::batch},
          {"running", RewardScale::running},
          {"none", RewardScale::none}};
}

std::vector<Word<DivergenceEstimate>> words(DivergenceEstimate) {
  return {{"k1", DivergenceEstimate::k1}, {"k3", DivergenceEstimate::k3}};
}

}  // namespace muster::spec

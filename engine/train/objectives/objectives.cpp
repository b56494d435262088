#include "train/objectives/objectives.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "train/objectives/actor_critic.hpp"
#include "train/objectives/combined.hpp"
#include "train/objectives/kto.hpp"
#include "train/objectives/policy_objective.hpp"
#include "train/objectives/preference_objective.hpp"
#include "train/objectives/reward_objective.hpp"
#include "train/objectives/supervised.hpp"

namespace muster::train {
namespace {

struct ObjectiveRow {
  spec::Algorithm algorithm;
  std::unique_ptr<Objective> (*make)(const ObjectiveOptions&);
};

std::unique_ptr<Objective> make_imitation(const ObjectiveOptions& options) {
  return options.combined ? make_combined(*options.combined) : make_supervised();
}

constexpr std::array objective_table{
    ObjectiveRow{spec::Algorithm::sft, make_imitation},
    ObjectiveRow{spec::Algorithm::dpo, make_dpo},
    ObjectiveRow{spec::Algorithm::simpo, make_simpo},
    ObjectiveRow{spec::Algorithm::orpo, make_orpo},
    ObjectiveRow{spec::Algorithm::kto, make_kto},
    ObjectiveRow{spec::Algorithm::reward, make_reward},
    ObjectiveRow{spec::Algorithm::grpo, make_policy},
    ObjectiveRow{spec::Algorithm::rloo, make_policy},
    ObjectiveRow{spec::Algorithm::ppo, make_actor_critic},
};

}  // namespace

std::unique_ptr<Objective> make_objective(spec::Algorithm algorithm, const ObjectiveOptions& options) {
  const auto found = std::ranges::find(objective_table, algorithm, &ObjectiveRow::algorithm);
  if (found == objective_table.end()) throw std::logic_error("an algorithm without an objective");
  return found->make(options);
}

}  // namespace muster::train

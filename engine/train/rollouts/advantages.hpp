// How much more each answer of a round earned than the others to its prompt, and what is reported of the round.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/batch_schedule.hpp"
#include "spec/policy_options.hpp"
#include "train/rollouts/rollout.hpp"
#include "wire/step_record.hpp"

namespace muster::train {

// In double and in the order of the answers: the same on every rank. Groups lie one after another. An answer without a
// reward has no part in any mean. seen: rewards of earlier rounds.
void give_advantages(std::vector<Rollout>& answers, const spec::PolicyOptions& options,
                     const data::RewardsSeen& seen = {});

// With those of a round's answers.
data::RewardsSeen rewards_after(data::RewardsSeen seen, const std::vector<Rollout>& answers);

// Groups with an advantage.
std::int64_t teaching_groups(const std::vector<Rollout>& answers, std::int64_t group);

// The numbers of the answers that are trained on: of all groups, or, of a round of several draws, of the first `groups` of
// those whose answers differ in what they earned. All where there is none of these.
std::vector<std::uint32_t> trained_answers(const std::vector<Rollout>& answers, const spec::PolicyOptions& options,
                                           std::int64_t groups);

// spec::metrics_of_round but for its earnings, and mean and deviation of each function. prompt_tokens: of all prompts, once for each answer.
std::vector<wire::NamedNumber> metrics_of(const Round& round, spec::Algorithm algorithm, std::int64_t group,
                                          std::int64_t prompt_tokens,
                                          const std::vector<std::string_view>& functions);

}  // namespace muster::train

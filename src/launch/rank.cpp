#include "launch/rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.hpp"

namespace muster::launch {
namespace {

struct Setting {
  std::string_view variable;
  std::string text;
};

// The first of these variables that is set.
std::optional<Setting> find(const EnvironmentLookup& lookup, std::initializer_list<std::string_view> variables) {
  for (const std::string_view variable : variables)
    if (auto text = lookup(variable)) return Setting{variable, *std::move(text)};
  return std::nullopt;
}

std::optional<int> number_in(std::string_view text) {
  const bool digits = std::ranges::all_of(text, [](char sign) { return '0' <= sign && sign <= '9'; });
  return digits ? parse_number<int>(text) : std::nullopt;
}

Result<std::optional<int>> number_of(const std::optional<Setting>& setting, int smallest) {
  if (!setting) return std::optional<int>();
  const auto number = number_in(setting->text);
  if (!number || *number < smallest)
    return Error{Error::Kind::bad_input, fmt::format("{}=\"{}\" in the environment", setting->variable, setting->text),
                 fmt::format("a whole number of {} or more, or unset {}", smallest, setting->variable)};
  return number;
}

std::optional<int> tasks_on_this_node(const EnvironmentLookup& lookup) {
  const auto node = lookup("SLURM_NODEID");
  const auto tasks = find(lookup, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (!node || !tasks) return std::nullopt;
  const auto number = number_in(*node);
  return number ? slurm_tasks_on_host(tasks->text, *number) : std::nullopt;
}

Error one_without_the_other(const Setting& set, std::string_view missing) {
  return {Error::Kind::bad_input, fmt::format("{}={}, but {} is not set", set.variable, set.text, missing),
          fmt::format("set both, as a launcher does, or unset {}", set.variable)};
}

std::optional<std::string> variable_of_this_process(std::string_view name) {
  const char* text = std::getenv(std::string(name).c_str());
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

template <class Value>
Result<Value> of_this_process(Value (*choose)(const RankFacts&)) {
  const auto facts = rank_from(variable_of_this_process);
  if (!facts) return facts.error();
  return choose(*facts);
}

}  // namespace

Result<RankFacts> rank_from(const EnvironmentLookup& lookup) {
  const bool task = is_slurm_task(lookup);
  const auto either = [&](std::string_view name, std::initializer_list<std::string_view> of_slurm) {
    auto setting = find(lookup, {name});
    return setting || !task ? setting : find(lookup, of_slurm);
  };
  const auto rank_setting = either("RANK", {"SLURM_PROCID"});
  const auto size_setting = either("WORLD_SIZE", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  const auto rank = number_of(rank_setting, 0);
  const auto world_size = number_of(size_setting, 1);
  const auto local_rank = number_of(either("LOCAL_RANK", {"SLURM_LOCALID"}), 0);
  const auto local_world_size = number_of(find(lookup, {"LOCAL_WORLD_SIZE"}), 1);
  for (const auto* number : {&rank, &world_size, &local_rank, &local_world_size})
    if (!*number) return number->error();

  if (rank_setting && !size_setting) return one_without_the_other(*rank_setting, "WORLD_SIZE");
  if (size_setting && !rank_setting) return one_without_the_other(*size_setting, "RANK");
  RankFacts facts{rank->value_or(0), world_size->value_or(1), *local_rank, *local_world_size};
  if (facts.rank >= facts.world_size)
    return Error{
        Error::Kind::bad_input,
        fmt::format("{}={}, but {}={}", rank_setting->variable, facts.rank, size_setting->variable, facts.world_size),
        "ranks count from 0 and are smaller than their number"};
  if (task && !facts.local_world_size) facts.local_world_size = tasks_on_this_node(lookup);
  // One task alone is any program that runs under srun; a launcher that sets RANK means a rank, even a single one.
  facts.launched = rank_setting && (rank_setting->variable == "RANK" || facts.world_size > 1);
  return facts;
}

Result<bool> is_distributed_available() {
  return of_this_process<bool>([](const RankFacts& facts) { return facts.launched; });
}
Result<int> get_rank() {
  return of_this_process<int>([](const RankFacts& facts) { return facts.rank; });
}
Result<int> get_world_size() {
  return of_this_process<int>([](const RankFacts& facts) { return facts.world_size; });
}
Result<int> get_local_rank() {
  return of_this_process<int>([](const RankFacts& facts) { return facts.local_rank.value_or(0); });
}
Result<bool> is_main_process() {
  return of_this_process<bool>([](const RankFacts& facts) { return facts.rank == 0; });
}

}  // namespace muster::launch

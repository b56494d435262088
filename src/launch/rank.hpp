// Which rank this process is, as its launcher told it through the environment: torchrun's variables, else Slurm's where
// srun started it, else rank 0 of 1. muster/_rank_facts.py does the same for Python; both are held to one table,
// tests/unit/launch/fixtures/rank_environments.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "launch/slurm.hpp"

namespace muster::launch {

struct RankFacts {
  int rank = 0;
  int world_size = 1;
  std::optional<int> local_rank;        // absent: nobody said
  std::optional<int> local_world_size;  // ranks on this machine; absent: nobody said
  bool launched = false;                // whether a launcher said that this process is a rank
  bool operator==(const RankFacts&) const = default;
};

// RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE; for each that is not set, what Slurm says to a task of a step. A
// text that is not such a number, a rank without a size or a size without a rank is bad input that names the variable.
Result<RankFacts> rank_from(const EnvironmentLookup& lookup);

// ---- over this process's environment, read again on each call ----

// Whether this process was started as a rank.
Result<bool> is_distributed_available();
Result<int> get_rank();
Result<int> get_world_size();
// 0 where nobody said.
Result<int> get_local_rank();
Result<bool> is_main_process();

}  // namespace muster::launch

// Graphs of jobs by chance, the same for the same seed on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "machine.hpp"

namespace muster::schedule {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  int between(int low, int high) {
    return low + static_cast<int>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }

 private:
  std::mt19937_64 engine_;
};

struct GraphShape {
  int jobs = 40;
  int most_gpus = 1;        // of one job
  int edge_percent = 40;    // that a job comes after others
  int chain_percent = 0;    // that it belongs to one of three chains
  int elastic_percent = 0;  // that it would take more GPUs
  int unpredicted_percent = 0;
  int priorities = 0;  // from −so many to so many
};

// Jobs that take 1 to 100 seconds.
inline std::vector<Job> random_jobs(Dice& dice, const GraphShape& shape, const std::string& prefix = "j") {
  std::vector<Job> jobs;
  std::vector<int> rounds(3, 0);
  for (int i = 0; i < shape.jobs; ++i) {
    Job made = lasting(job(prefix + std::to_string(i), dice.between(1, shape.most_gpus)), dice.between(1, 100));
    if (i > 0 && dice.chance(shape.edge_percent))
      for (int edges = dice.between(1, 3); edges > 0; --edges)
        (dice.chance(50) ? made.after : made.after_ok)
            .push_back(jobs[static_cast<std::size_t>(dice.between(0, i - 1))].id);
    if (dice.chance(shape.chain_percent)) {
      const int chain = dice.between(0, 2);
      made.chain = ChainPlace{prefix + "chain" + std::to_string(chain), ++rounds[static_cast<std::size_t>(chain)]};
    }
    if (dice.chance(shape.elastic_percent)) made.gpus.maximum = made.gpus.minimum + dice.between(1, 7);
    if (dice.chance(shape.unpredicted_percent)) made.prediction.reset();
    made.priority = dice.between(-shape.priorities, shape.priorities);
    jobs.push_back(std::move(made));
  }
  return jobs;
}

}  // namespace muster::schedule

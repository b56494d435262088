// What runs have learned about memory: how large passes could be where their plan was wrong, or a GPU was not empty.
#pragma once

#include <filesystem>

#include "job/train/train.hpp"

namespace muster::job {

struct KnownPass {
  std::int64_t micro_batch = 1;
  spec::Recomputation recompute = spec::Recomputation::none;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("micro_batch", self.micro_batch);
    visit("recompute", self.recompute);
  }
};

// Files in the cache, one for everything that memory depends on: the model's shape, types, strategy, ranks, GPUs and
// how much of them is free. Entries older than a month, or unreadable, count as unknown.
class KnownPasses {
 public:
  explicit KnownPasses(const std::filesystem::path& cache) : folder_(cache / "passes") {}

  std::optional<KnownPass> find(const TrainPlan& plan, const wire::TrainTask& task) const;
  // Memory ran out, and this is tried next. It does not matter if it cannot be stored.
  void keep(const TrainPlan& plan, const wire::TrainTask& task, const KnownPass& pass) const;

 private:
  std::filesystem::path folder_;
};

// Makes passes as small as an earlier run's ended up, unless they already are; plans again, and says so.
void begin_with_known_pass(const KnownPasses& known, TrainPlan& plan, wire::TrainTask& task);

}  // namespace muster::job

// A world in which much goes wrong, the same for the same seed.
#pragma once

#include <memory>

#include "random_jobs.hpp"
#include "schedule/simulation.hpp"

namespace muster::schedule {

// A world in which attempts fail, hang and run late, with GPUs that come and go.
inline World rough_world(std::shared_ptr<Dice> dice) {
  return [dice](const Scheduler&, const JobRecord& record) -> std::optional<Course> {
    const Duration length = seconds(dice->between(1, 150));
    if (record.job.timeout && dice->chance(10)) return std::nullopt;  // it hangs
    if (dice->chance(20)) return Course{length, Ended::How::killed, 9};
    return Course{length, Ended::How::exited, dice->chance(10) ? 1 : 0};
  };
}

// The scheduler that it begins with.
inline Scheduler rough_scheduler(Dice& dice) {
  const int gpus = dice.between(2, 9);
  return with_gpus(gpus, {seconds(dice.between(5, 500)), 2});
}
inline Scheduler rough_scheduler(std::uint64_t seed) {
  Dice dice(seed);
  return rough_scheduler(dice);
}

inline Simulation rough_simulation(std::uint64_t seed) {
  auto dice = std::make_shared<Dice>(seed);
  Simulation simulation(rough_scheduler(*dice), rough_world(dice));
  const int gpus = simulation.scheduler().gpus().size();
  for (int batch = 0; batch < 4; ++batch) {
    std::vector<Job> jobs = random_jobs(*dice,
                                        {.jobs = 20,
                                         .most_gpus = gpus,
                                         .edge_percent = 30,
                                         .chain_percent = 30,
                                         .elastic_percent = 20,
                                         .unpredicted_percent = 40,
                                         .priorities = 3},
                                        "b" + std::to_string(batch) + "_");
    for (Job& made : jobs) {
      made.retries = dice->between(0, 2);
      made.label = dice->chance(50) ? "label" + std::to_string(dice->between(0, 3)) : "";
      made.kind = dice->chance(50) ? "kind" : "";
      if (dice->chance(50)) made.timeout = seconds(dice->between(50, 300));
      if (dice->chance(15)) made.gpus = GpuRequest::exactly(0);
      if (dice->chance(5)) simulation.at(at(dice->between(0, 900)), Cancelled{made.id});
      if (dice->chance(30)) {
        made.heartbeat = seconds(60);
        made.timeout = made.timeout.value_or(seconds(300));
      }
    }
    simulation.at(at(batch * dice->between(0, 200)), Submitted{jobs});
  }
  for (int i = 0; i < 4; ++i) {
    const GpuNumber gpu{dice->between(0, gpus - 1)};
    const int when = dice->between(0, 600);
    simulation.at(at(when), GpuLost{gpu, "Xid 79"});
    simulation.at(at(when + dice->between(1, 200)), GpuReturned{gpu});
  }
  if (seed % 2 == 0) {
    GpusLinked linked;
    for (int a = 0; a < gpus; ++a)
      for (int b = 0; b < a; ++b)
        if (dice->chance(40)) linked.links.push_back({GpuNumber{a}, GpuNumber{b}, dice->between(1, 3)});
    simulation.at(at(dice->between(0, 300)), linked);
  }
  simulation.run();
  return simulation;
}

}  // namespace muster::schedule

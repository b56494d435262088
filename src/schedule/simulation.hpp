// A scheduler on a virtual clock, with a world that says how long each attempt takes and how it ends.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedule/scheduler.hpp"

namespace muster::schedule {

// What the world does with one attempt.
struct Course {
  Duration length{};
  Ended::How how = Ended::How::exited;
  int code = 0;
};
// Absent: it never ends by itself.
using World = std::function<std::optional<Course>(const Scheduler&, const JobRecord&)>;

// Every job takes as long as it is expected to and succeeds; one of unknown length takes `otherwise`.
World as_predicted(std::optional<Duration> otherwise = std::nullopt);

// One attempt.
struct JobRun {
  JobIndex job{};
  std::vector<GpuNumber> gpus;
  Time start;
  std::optional<Time> end;  // absent: it still runs
  int attempt = 1;
  bool succeeded = false;
};

class Simulation {
 public:
  // Jobs that already run end when they are expected to.
  Simulation(Scheduler scheduler, World world);

  // What else will happen. Refused events are not kept.
  void at(Time time, Happening what);

  // The next thing that happens; false when nothing will.
  bool step();
  void run() {
    while (step()) {
    }
  }

  const Scheduler& scheduler() const { return scheduler_; }
  const std::vector<JobRun>& runs() const { return runs_; }
  const std::vector<Event>& journal() const { return journal_; }
  // Each event's, in the order of the journal.
  const std::vector<std::vector<Decision>>& decisions() const { return decisions_; }
  const std::vector<Error>& refused() const { return refused_; }

 private:
  struct Planned {
    Happening what;
    std::optional<std::pair<JobIndex, int>> attempt;  // an end: whose; it is void when that attempt is over
  };
  void apply(const Event& event);
  void follow(const Start& start);
  bool is_void(const Planned& planned) const;

  Scheduler scheduler_;
  World world_;
  std::multimap<Time, Planned> planned_;
  std::vector<JobRun> runs_;
  std::map<JobIndex, std::size_t> open_;  // runs that have not ended
  std::vector<Event> journal_;
  std::vector<std::vector<Decision>> decisions_;
  std::vector<Error> refused_;
};

}  // namespace muster::schedule

// What holds of every schedule, on graphs made by chance.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "machine.hpp"
#include "random_jobs.hpp"
#include "rough_world.hpp"
#include "schedule/journal.hpp"
#include "schedule/schedule_text.hpp"
#include "schedule/simulation.hpp"

namespace muster::schedule {
namespace {

constexpr std::uint64_t graphs = 200;

const JobRecord& record_of(const Simulation& simulation, const JobRun& run) {
  return simulation.scheduler().jobs().at(run.job);
}

// No GPU has two runs at the same time, and no run has a GPU twice, too few or too many.
void expect_disjoint(const Simulation& simulation) {
  std::map<GpuNumber, Time> busy_until;
  for (const JobRun& run : simulation.runs()) {  // in the order of their starts
    ASSERT_TRUE(run.end);
    const GpuRequest& request = record_of(simulation, run).job.gpus;
    ASSERT_GE(run.gpus.size(), static_cast<std::size_t>(request.minimum));
    ASSERT_LE(run.gpus.size(), static_cast<std::size_t>(request.most()));
    for (const GpuNumber gpu : run.gpus) {
      ASSERT_LT(number(gpu), simulation.scheduler().gpus().size());
      ASSERT_LE(busy_until[gpu], run.start) << "GPU " << number(gpu) << " has two jobs";
      busy_until[gpu] = *run.end;
    }
    for (std::size_t i = 1; i < run.gpus.size(); ++i) ASSERT_NE(run.gpus[i - 1], run.gpus[i]);
  }
}

// Nobody begins before what it depends on has ended, in the way it asked for; chains keep their rounds.
void expect_ordered(const Simulation& simulation) {
  const JobTable& jobs = simulation.scheduler().jobs();
  std::map<std::string, std::pair<int, Time>> chains;  // the last round and its end
  for (const JobRun& run : simulation.runs()) {
    const Job& job = jobs.at(run.job).job;
    for (const auto* list : {&job.after, &job.after_ok})
      for (const JobId& id : *list) {
        const JobRecord& other = jobs.at(*jobs.find(id));
        ASSERT_TRUE(other.ended && *other.ended <= run.start) << job.id.text << " began before " << id.text << " ended";
        ASSERT_TRUE(list == &job.after || other.state == JobState::succeeded);
      }
    if (!job.chain) continue;
    auto& [round, end] = chains[job.chain->name];
    ASSERT_TRUE(job.chain->round == round + 1 || (job.chain->round == round && run.attempt > 1))
        << job.id.text << " is round " << job.chain->round << " and begins after round " << round;
    ASSERT_GE(run.start, end);
    round = job.chain->round;
    end = *run.end;
  }
}

void expect_all_settled(const Simulation& simulation) {
  for (const JobRecord& record : simulation.scheduler().jobs().all())
    ASSERT_TRUE(is_settled(record.state)) << record.job.id.text << " is " << name(record.state);
  ASSERT_TRUE(simulation.scheduler().is_idle());
  ASSERT_EQ(simulation.scheduler().gpus().free(), simulation.scheduler().gpus().size());
}

TEST(RandomGraphs, OfOneGpuJobsEndWithinGrahamsBound) {
  for (std::uint64_t seed = 1; seed <= graphs; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const int gpus = dice.between(1, 9);
    const std::vector<Job> jobs = random_jobs(
        dice, {.jobs = dice.between(1, 80), .edge_percent = dice.between(0, 90), .chain_percent = dice.between(0, 40)});
    Simulation simulation(with_gpus(gpus), as_predicted());
    simulation.at(at(0), Submitted{jobs});
    simulation.run();
    expect_disjoint(simulation);
    expect_ordered(simulation);
    expect_all_settled(simulation);
    // The longest way through the graph, of which every edge leads to a later job.
    std::vector<Duration> way;
    Duration work{}, critical{};
    for (const JobRecord& record : simulation.scheduler().jobs().all()) {
      Duration before{};
      for (const Dependency& dependency : record.dependencies) before = std::max(before, way[position(dependency.job)]);
      way.push_back(before + *record.job.prediction);
      work += *record.job.prediction;
      critical = std::max(critical, way.back());
    }
    const Duration makespan = end_of(simulation.runs()) - Time{};
    ASSERT_LE(makespan * gpus, work + (gpus - 1) * critical);
    ASSERT_GE(makespan, critical);
  }
}

TEST(RandomGraphs, InARoughWorldKeepTheirOrderAndTheirGpus) {
  int retried = 0, skipped = 0;
  for (std::uint64_t seed = 1; seed <= graphs; ++seed) {
    SCOPED_TRACE(seed);
    const Simulation simulation = rough_simulation(seed);
    expect_disjoint(simulation);
    expect_ordered(simulation);
    expect_all_settled(simulation);
    for (const JobRecord& record : simulation.scheduler().jobs().all()) {
      ASSERT_LE(record.failures, record.job.retries + 1);
      retried += record.attempts > 1;
      skipped += record.state == JobState::skipped;
    }
  }
  EXPECT_GT(retried, 1000);  // the world was rough
  EXPECT_GT(skipped, 1000);
}

TEST(RandomGraphs, RetriesNeverReturnToAGpuWhileThereAreOthers) {
  for (std::uint64_t seed = 1; seed <= graphs; ++seed) {
    SCOPED_TRACE(seed);
    auto dice = std::make_shared<Dice>(seed);
    const int gpus = dice->between(2, 6);
    std::vector<Job> jobs = random_jobs(*dice, {.jobs = 40, .most_gpus = 2});
    for (Job& made : jobs) made.retries = 4;
    Simulation simulation(with_gpus(gpus), rough_world(dice));
    simulation.at(at(0), Submitted{jobs});
    simulation.run();
    expect_all_settled(simulation);
    std::map<JobIndex, std::set<GpuNumber>> failed_on;
    for (const JobRun& run : simulation.runs()) {
      std::set<GpuNumber>& avoided = failed_on[run.job];
      if (gpus - static_cast<int>(avoided.size()) >= record_of(simulation, run).job.gpus.minimum) {
        for (const GpuNumber gpu : run.gpus)
          ASSERT_FALSE(avoided.contains(gpu)) << record_of(simulation, run).job.id.text;
      }
      if (!run.succeeded) avoided.insert(run.gpus.begin(), run.gpus.end());
    }
  }
}

// ---- passing the first in the line ----

// The jobs that GPUs are kept for, each with the time it was promised when that began, and what would have become of it
// had nobody else been let in from then on.
struct Promise {
  std::optional<Time> expected;
  std::optional<Time> alone;
};

std::optional<Time> start_alone(const Scheduler& scheduler, JobIndex gang, const std::map<JobIndex, Time>& true_ends) {
  Scheduler world = scheduler;
  for (const JobRecord& record : scheduler.jobs().all())
    if (record.state == JobState::ready && record.rank.order != gang) {
      EXPECT_TRUE(world.apply({scheduler.now(), Cancelled{record.job.id}}));
    }
  std::multimap<Time, JobIndex> ends;
  for (const auto& [job, end] : true_ends)
    if (has_gpus(scheduler.jobs().at(job).state)) ends.emplace(end, job);
  for (const auto& [end, job] : ends) {
    if (has_gpus(world.jobs().at(gang).state)) break;
    EXPECT_TRUE(world.apply({end, Ended{scheduler.jobs().at(job).job.id}}));
  }
  return world.jobs().at(gang).started;
}

std::map<JobIndex, Promise> run_and_watch(Simulation& simulation, const std::map<JobIndex, Time>* true_ends) {
  std::map<JobIndex, Promise> promises;
  while (simulation.step()) {
    const auto kept = simulation.scheduler().reservation();
    if (!kept || promises.contains(kept->job)) continue;
    Promise& promise = promises[kept->job];
    promise.expected = kept->expected;
    if (true_ends) promise.alone = start_alone(simulation.scheduler(), kept->job, *true_ends);
  }
  return promises;
}

// Jobs that come one after another, without dependencies, so that the line never runs dry.
void submit_stream(Simulation& simulation, Dice& dice, int gpus, int unpredicted_percent) {
  const std::vector<Job> jobs = random_jobs(
      dice, {.jobs = 120, .most_gpus = gpus, .edge_percent = 0, .unpredicted_percent = unpredicted_percent});
  int when = 0;
  for (const Job& made : jobs) simulation.at(at(when += dice.between(0, 15)), Submitted{{made}});
}

TEST(Backfill, NeverDelaysTheFirstInTheLineBeyondItsPromise) {
  std::size_t kept = 0;
  for (std::uint64_t seed = 1; seed <= graphs; ++seed) {
    SCOPED_TRACE(seed);
    auto dice = std::make_shared<Dice>(seed);
    const int gpus = dice->between(2, 12);
    // Predictions hold, or jobs end earlier.
    Simulation simulation(with_gpus(gpus), [dice](const Scheduler&, const JobRecord& record) {
      return Course{*record.job.prediction * dice->between(20, 100) / 100, Ended::How::exited, 0};
    });
    submit_stream(simulation, *dice, gpus, 0);
    for (const auto& [job, promise] : run_and_watch(simulation, nullptr)) {
      ASSERT_TRUE(promise.expected);
      ASSERT_LE(*simulation.scheduler().jobs().at(job).started, *promise.expected);
      ++kept;
    }
  }
  EXPECT_GT(kept, 3000u);
}

TEST(Backfill, NeverDelaysTheFirstInTheLineAtAllWhilePredictionsHold) {
  std::size_t kept = 0, passed = 0;
  for (std::uint64_t seed = 1; seed <= graphs; ++seed) {
    SCOPED_TRACE(seed);
    auto dice = std::make_shared<Dice>(seed);
    const int gpus = dice->between(2, 12);
    auto true_ends = std::make_shared<std::map<JobIndex, Time>>();
    // A job without a prediction may take any time.
    Simulation simulation(with_gpus(gpus), [=](const Scheduler& scheduler, const JobRecord& record) {
      const Duration length = record.job.prediction.value_or(seconds(dice->between(1, 200)));
      (*true_ends)[record.rank.order] = scheduler.now() + length;
      return Course{length, Ended::How::exited, 0};
    });
    submit_stream(simulation, *dice, gpus, seed % 2 == 0 ? 0 : 30);
    for (const auto& [job, promise] : run_and_watch(simulation, true_ends.get())) {
      ASSERT_TRUE(promise.alone);
      ASSERT_EQ(*simulation.scheduler().jobs().at(job).started, *promise.alone);
      ++kept;
    }
    for (std::size_t i = 1; i < simulation.runs().size(); ++i)
      passed += simulation.runs()[i].job < simulation.runs()[i - 1].job;
  }
  EXPECT_GT(kept, 2000u);
  EXPECT_GT(passed, 2000u);  // jobs did pass
}

// ---- starvation ----

// More urgent work than the GPUs can do, for ever: one that ranks low still gets its turn.
TEST(Starvation, EndsWhenAgeHasMadeUpForPriority) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const int gpus = dice.between(2, 8), priority = dice.between(0, 5);
    const Duration ageing = seconds(60);
    Simulation simulation(with_gpus(gpus, {ageing, 8}), as_predicted());
    Job patient = lasting(job("patient", gpus), 50);
    simulation.at(at(5), Submitted{{patient}});
    Duration ahead{};  // work that ranks before it
    const Time bound_of_rank = at(5) + priority * ageing;
    for (int i = 0, when = 0; when < 3000; ++i, when += dice.between(0, 20)) {
      Job urgent = lasting(job("urgent" + std::to_string(i), dice.between(1, gpus)), dice.between(10, 60));
      urgent.priority = priority;
      if (at(when) <= bound_of_rank) ahead += *urgent.prediction;
      simulation.at(at(when), Submitted{{urgent}});
    }
    simulation.run();
    const JobRecord& record = simulation.scheduler().jobs().at(*simulation.scheduler().jobs().find({"patient"}));
    // At worst everybody before it ran alone, and the last who passed took as long as any.
    EXPECT_LE(*record.started, bound_of_rank + ahead + seconds(60));
    EXPECT_LT(*record.started, at(3000));  // others kept coming
  }
}

// ---- the journal ----

TEST(Journal, ReplaysToTheSameStateAndTheSameDecisions) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const Simulation simulation = rough_simulation(seed);
    std::string text;
    Scheduler first = with_gpus(simulation.scheduler().gpus().size(), simulation.scheduler().rules());
    for (const Event& event : simulation.journal()) text += to_line(event) + "\n";
    const Journal read = read_journal(text, "journal.jsonl").value();
    ASSERT_EQ(read.events, simulation.journal());
    for (std::size_t i = 0; i < read.events.size(); ++i)
      ASSERT_EQ(first.apply(read.events[i]).value(), simulation.decisions()[i]) << i;
    ASSERT_EQ(first.gpus().all(), simulation.scheduler().gpus().all());
    for (std::size_t i = 0; i < first.jobs().size(); ++i) {
      const JobRecord &one = first.jobs().all()[i], &other = simulation.scheduler().jobs().all()[i];
      ASSERT_EQ(one.state, other.state);
      ASSERT_EQ(one.ended, other.ended);
      ASSERT_EQ(one.reason, other.reason);
    }
  }
}

}  // namespace
}  // namespace muster::schedule

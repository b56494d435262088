#include "schedule/snapshot.hpp"

#include <gtest/gtest.h>

#include <set>

#include "rough_world.hpp"
#include "schedule/journal.hpp"

namespace muster::schedule {
namespace {

// Jobs, each with a chance.
std::unordered_set<JobIndex> some_to_forget(const Scheduler& scheduler, Dice& dice) {
  std::unordered_set<JobIndex> forgotten;
  for (std::size_t job = 0; job < scheduler.jobs().size(); ++job)
    if (dice.chance(90)) forgotten.insert(JobIndex{static_cast<std::uint32_t>(job)});
  return scheduler.can_forget(std::move(forgotten));
}

Scheduler through_the_journal(const Scheduler& scheduler, const std::unordered_set<JobIndex>& forgotten) {
  const std::string line = to_line({scheduler.now(), scheduler.snapshot(forgotten)}) + "\n";
  auto restored = replay(read_journal(line, "journal").value().events);
  EXPECT_TRUE(restored) << restored.error().what;
  return *restored;
}

TEST(Snapshot, OfAnyMomentGoesOnAsTheWholeJournalWould) {
  std::size_t all_forgotten = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const Simulation simulation = rough_simulation(seed);
    const std::vector<Event>& events = simulation.journal();
    Dice dice(seed);
    const auto cut = static_cast<std::size_t>(dice.between(0, static_cast<int>(events.size())));
    Scheduler whole = rough_scheduler(seed);
    for (std::size_t next = 0; next < cut; ++next) ASSERT_TRUE(whole.apply(events[next]));
    const auto forgotten = some_to_forget(whole, dice);
    all_forgotten += forgotten.size();
    Scheduler restored = through_the_journal(whole, forgotten);
    ASSERT_EQ(restored.snapshot(), whole.snapshot(forgotten));
    ASSERT_EQ(restored.next_deadline(), whole.next_deadline());
    ASSERT_EQ(restored.is_idle(), whole.is_idle());
    for (std::size_t next = cut; next < events.size(); ++next) {
      ASSERT_EQ(restored.apply(events[next]).value(), whole.apply(events[next]).value());
      ASSERT_EQ(restored.next_deadline(), whole.next_deadline());
    }
    ASSERT_EQ(restored.snapshot(), whole.snapshot(forgotten));
  }
  EXPECT_GT(all_forgotten, 2000u);
}

TEST(Snapshot, TakenAgainAndAgainStaysExact) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    const Simulation simulation = rough_simulation(seed);
    Scheduler restored = rough_scheduler(seed);
    for (std::size_t next = 0; next < simulation.journal().size(); ++next) {
      ASSERT_EQ(restored.apply(simulation.journal()[next]).value(), simulation.decisions()[next]);
      restored = through_the_journal(restored, {});
    }
  }
}

TEST(Snapshot, KeepsWhatIsWaitedForAndChainsAsAWhole) {
  Machine machine(8);
  Job first_round = job("round 1"), second_round = job("round 2");
  first_round.chain = ChainPlace{"chain", 1};
  second_round.chain = ChainPlace{"chain", 2};
  Job waits = job("waits");
  waits.after = {{"first"}, {"long"}};
  machine.submit(0, {job("first"), job("alone"), first_round, job("long"), waits, second_round});
  for (const char* id : {"first", "alone", "round 1"}) machine.succeed(1, id);
  const auto forgettable = [&] {
    std::unordered_set<JobIndex> all;
    for (std::size_t i = 0; i < machine.scheduler.jobs().size(); ++i)
      all.insert(JobIndex{static_cast<std::uint32_t>(i)});
    std::set<std::string> ids;
    for (const JobIndex index : machine.scheduler.can_forget(all))
      ids.insert(machine.scheduler.jobs().at(index).job.id.text);
    return ids;
  };
  EXPECT_EQ(forgettable(), (std::set<std::string>{"alone"}));
  machine.succeed(2, "long");
  machine.succeed(3, "waits");
  EXPECT_EQ(forgettable(), (std::set<std::string>{"alone", "first", "long", "waits"}));
  machine.succeed(4, "round 2");
  EXPECT_EQ(forgettable().size(), 6u);
}

TEST(Snapshot, ThatContradictsItselfIsRefused) {
  Machine machine(2);
  machine.submit(0, {job("runs"), job("waits", 2)});
  const Snapshot sound = machine.scheduler.snapshot();
  const auto is_refused = [](const Snapshot& snapshot) { return !Scheduler().apply({at(1), snapshot}); };
  EXPECT_FALSE(is_refused(sound));
  EXPECT_FALSE(machine.scheduler.apply({at(1), sound})) << "it is not the first event";
  Snapshot damaged = sound;
  damaged.jobs[0].gpus = {GpuNumber{7}};
  EXPECT_TRUE(is_refused(damaged));
  damaged = sound;
  damaged.jobs[0].started.reset();
  EXPECT_TRUE(is_refused(damaged));
  damaged = sound;
  damaged.gpus[0].state = GpuState::free;
  EXPECT_TRUE(is_refused(damaged));
  damaged = sound;
  damaged.jobs[1].job.id = damaged.jobs[0].job.id;
  EXPECT_TRUE(is_refused(damaged));
  damaged = sound;
  damaged.reserved = JobIndex{0};
  EXPECT_TRUE(is_refused(damaged));
  damaged = sound;
  damaged.links = {{GpuNumber{0}, GpuNumber{2}, 1}};
  EXPECT_TRUE(is_refused(damaged));
  damaged = sound;
  damaged.lengths = {{"train", {}, {}, 0, LengthStep{1'000'000}}};
  EXPECT_TRUE(is_refused(damaged));
}

}  // namespace
}  // namespace muster::schedule

#include "schedule/scheduler.hpp"

#include <gtest/gtest.h>

#include "machine.hpp"
#include "schedule/journal.hpp"
#include "schedule/summary.hpp"

namespace muster::schedule {
namespace {

Job after(Job made, Ids others) {
  for (auto& other : others) made.after.push_back({other});
  return made;
}
Job after_ok(Job made, Ids others) {
  for (auto& other : others) made.after_ok.push_back({other});
  return made;
}
Job in_chain(Job made, std::string name, int round) {
  made.chain = ChainPlace{std::move(name), round};
  return made;
}
Job with_priority(Job made, int priority) {
  made.priority = priority;
  return made;
}
Job with_retries(Job made, int retries) {
  made.retries = retries;
  return made;
}
Job elastic(Job made, int minimum, int maximum) {
  made.gpus = {minimum, maximum};
  return made;
}
Error refusal(Machine& machine, std::vector<Job> jobs) {
  const auto answer = machine.scheduler.apply({at(0), Submitted{std::move(jobs)}});
  return answer ? Error{Error::Kind::failed, "it was accepted", ""} : answer.error();
}
template <class Kind>
std::vector<Kind> only(const std::vector<Decision>& decisions) {
  std::vector<Kind> found;
  for (const Decision& decision : decisions)
    if (const auto* one = std::get_if<Kind>(&decision)) found.push_back(*one);
  return found;
}

// ---- what is accepted ----

TEST(Submission, RefusesAllWhenOneCannotBeAndNamesEveryProblem) {
  Machine machine(2);
  const Error error =
      refusal(machine, {job("a"), job("a"), job("b", 3), after(job("c"), {"nobody"}), with_priority(job("d"), 101)});
  EXPECT_NE(error.what.find("this id is taken"), std::string::npos) << error.what;
  EXPECT_NE(error.what.find("wants 3 GPUs, there are 2"), std::string::npos) << error.what;
  EXPECT_NE(error.what.find("comes after nobody"), std::string::npos) << error.what;
  EXPECT_NE(error.what.find("priority is 101"), std::string::npos) << error.what;
  EXPECT_EQ(machine.scheduler.jobs().size(), 0u);
}

TEST(Submission, RefusesAJobThatComesAfterItself) {
  Machine machine(1);
  EXPECT_NE(refusal(machine, {after_ok(job("a"), {"a"})}).what.find("comes after a"), std::string::npos);
}

TEST(Submission, RefusesWishesThatContradictThemselves) {
  Machine machine(8);
  EXPECT_NE(refusal(machine, {elastic(job("a"), 4, 2)}).what.find("at least 4 and at most 2"), std::string::npos);
  EXPECT_NE(refusal(machine, {elastic(job("a"), 0, 2)}).what.find("0 to 2"), std::string::npos);
  EXPECT_NE(refusal(machine, {job("a", -1)}).what.find("-1"), std::string::npos);
}

TEST(Submission, RefusesNamesThatAJournalCouldNotHold) {
  Machine machine(1);
  EXPECT_NE(refusal(machine, {job("a\xff")}).what.find("not UTF-8"), std::string::npos);
}

TEST(Submission, RefusesRoundsOutOfTheirOrder) {
  Machine machine(1);
  EXPECT_NE(refusal(machine, {in_chain(job("a"), "x", 1), in_chain(job("c"), "x", 3)}).what.find("last round is 1"),
            std::string::npos);
  EXPECT_NE(refusal(machine, {in_chain(job("a"), "x", 0)}).what.find("rounds count from 1"), std::string::npos);
}

TEST(Events, ThatCannotBeChangeNothing) {
  Machine machine(1);
  machine.submit(1, {job("a"), job("b")});
  EXPECT_FALSE(machine.scheduler.apply({at(90), Ended{{"b"}}}));
  EXPECT_FALSE(machine.scheduler.apply({at(90), Ended{{"nobody"}}}));
  EXPECT_FALSE(machine.scheduler.apply({at(90), GpuLost{GpuNumber{7}, "gone"}}));
  EXPECT_FALSE(machine.scheduler.apply({at(90), Rules{}}));
  EXPECT_EQ(machine.scheduler.now(), at(1));
  EXPECT_EQ(machine.state("a"), JobState::running);
}

TEST(Events, OfAClockThatWasSetBackHappenNow) {
  Machine machine(1);
  machine.submit(100, {job("a")});
  machine.succeed(40, "a");
  EXPECT_EQ(machine.scheduler.jobs().all()[0].ended, at(100));
}

// ---- dependencies ----

TEST(Dependencies, AfterWaitsForAnyEndAndAfterOkForSuccess) {
  Machine machine(4);
  EXPECT_EQ(started(machine.submit(0, {job("a"), after(job("any"), {"a"}), after_ok(job("ok"), {"a"})})), Ids{"a"});
  const auto decisions = machine.fail(5, "a");
  EXPECT_EQ(started(decisions), Ids{"any"});
  EXPECT_EQ(machine.state("ok"), JobState::skipped);
}

TEST(Dependencies, AFailureSkipsEverythingBelowItAndNothingElse) {
  Machine machine(4);
  machine.submit(0, {job("root"), after_ok(job("child"), {"root"}), after_ok(job("grandchild"), {"child"}),
                     after(job("cleanup"), {"grandchild"}), job("other"), after_ok(job("next"), {"other"})});
  const auto settled = only<Settle>(machine.fail(1, "root"));
  ASSERT_EQ(settled.size(), 3u);
  EXPECT_EQ(settled[2].job.text, "grandchild");
  EXPECT_EQ(settled[2].because, JobId{"child"});
  EXPECT_EQ(machine.state("cleanup"), JobState::running);
  EXPECT_EQ(started(machine.succeed(2, "other")), Ids{"next"});
  const Summary summary = summarize(machine.scheduler);
  EXPECT_EQ(summary.failures,
            (std::vector<Summary::Failure>{{{"root"}, "exit status 1", 1, {{"child"}, {"grandchild"}}}}));
  EXPECT_FALSE(summary.all_succeeded());
  EXPECT_EQ(to_text(summary),
            "6 jobs: 1 succeeded, 1 failed, 2 skipped, 2 not ended\n"
            "root: exit status 1\n"
            "  skipped with it: child, grandchild\n");
}

TEST(Dependencies, AJobSubmittedAfterItsParentFailedIsSkippedAtOnce) {
  Machine machine(1);
  machine.submit(0, {job("a")});
  machine.fail(1, "a");
  const auto settled = only<Settle>(machine.submit(2, {after_ok(job("b"), {"a"}), after_ok(job("c"), {"b"})}));
  ASSERT_EQ(settled.size(), 2u);
  EXPECT_EQ(settled[1].outcome, Outcome::skipped);
  EXPECT_EQ(settled[1].because, JobId{"b"});
}

TEST(Chains, ARoundWaitsForTheRoundBeforeOfItsOwnChainOnly) {
  Machine machine(4);
  machine.submit(0, {in_chain(job("x1"), "x", 1), in_chain(job("x2"), "x", 2), in_chain(job("y1"), "y", 1),
                     in_chain(job("y2"), "y", 2)});
  EXPECT_EQ(machine.state("x2"), JobState::waiting);
  EXPECT_EQ(started(machine.succeed(1, "y1")), Ids{"y2"});
  machine.fail(2, "x1");
  EXPECT_EQ(machine.state("x2"), JobState::skipped);
  EXPECT_EQ(machine.state("y2"), JobState::running);
}

TEST(Chains, ARoundWaitsForEveryJobOfTheRoundBefore) {
  Machine machine(4);
  machine.submit(0, {in_chain(job("a"), "x", 1), in_chain(job("b"), "x", 1), in_chain(job("c"), "x", 2)});
  machine.succeed(1, "a");
  EXPECT_EQ(machine.state("c"), JobState::waiting);
  EXPECT_EQ(started(machine.succeed(2, "b")), Ids{"c"});
}

TEST(Chains, ARoundNeedsTheSuccessOfTheRoundBeforeAlsoWhereItComesAfterItsEnd) {
  Machine machine(4);
  machine.submit(0, {in_chain(job("a"), "x", 1), after(in_chain(job("b"), "x", 2), {"a"})});
  machine.fail(1, "a");
  EXPECT_EQ(machine.state("b"), JobState::skipped);
}

TEST(Chains, NearerToDoneGoesFirst) {
  Machine machine(1);
  machine.submit(0, {in_chain(job("x1"), "x", 1), in_chain(job("x2"), "x", 2), in_chain(job("y1"), "y", 1),
                     in_chain(job("y2"), "y", 2)});
  EXPECT_EQ(started(machine.succeed(1, "x1")), Ids{"x2"});
  EXPECT_EQ(started(machine.succeed(2, "x2")), Ids{"y1"});
}

// ---- the line ----

TEST(Line, HigherPriorityGoesFirstThenWhoCameFirst) {
  Machine machine(1);
  machine.submit(0, {job("running")});
  machine.submit(0, {job("first"), job("second"), with_priority(job("urgent"), 1)});
  EXPECT_EQ(started(machine.succeed(1, "running")), Ids{"urgent"});
  EXPECT_EQ(started(machine.succeed(2, "urgent")), Ids{"first"});
}

TEST(Line, WaitingMakesUpForPriority) {
  Machine machine(1, {seconds(60), 8});
  machine.submit(0, {job("running"), job("old")});
  machine.submit(59, {with_priority(job("urgent"), 1)});
  machine.submit(61, {with_priority(job("late"), 1)});
  EXPECT_EQ(started(machine.succeed(100, "running")), Ids{"urgent"});
  EXPECT_EQ(started(machine.succeed(101, "urgent")), Ids{"old"});
  EXPECT_EQ(started(machine.succeed(102, "old")), Ids{"late"});
}

TEST(Line, JobsWithoutGpusRunBesideThemUpToTheirOwnLimit) {
  Machine machine(0, {seconds(60), 2});
  EXPECT_EQ(started(machine.submit(0, {job("a", 0), job("b", 0), job("c", 0)})), (Ids{"a", "b"}));
  EXPECT_EQ(started(machine.succeed(1, "a")), Ids{"c"});
}

TEST(Gangs, GetAllTheirGpusAtOnceOrNone) {
  Machine machine(4);
  EXPECT_EQ(started(machine.submit(0, {job("a"), job("b"), job("gang", 4)})), (Ids{"a", "b"}));
  EXPECT_EQ(started(machine.succeed(1, "a")), Ids{});
  EXPECT_EQ(started(machine.succeed(2, "b")), Ids{"gang"});
  EXPECT_EQ(machine.gpus("gang"), (Numbers{0, 1, 2, 3}));
}

TEST(Gangs, ThatTheGpusLeftCannotHoldDoNotBlockOthers) {
  Machine machine(4);
  machine.tell(0, GpuLost{GpuNumber{3}, "Xid 79"});
  EXPECT_EQ(started(machine.submit(1, {job("gang", 4), job("a")})), Ids{"a"});
  EXPECT_EQ(started(machine.tell(2, GpuReturned{GpuNumber{3}})), Ids{});
  EXPECT_EQ(started(machine.submit(3, {job("b")})), Ids{});  // four GPUs again: they are kept for the gang
  EXPECT_EQ(started(machine.succeed(4, "a")), Ids{"gang"});
}

// ---- passing the first in the line ----

TEST(Backfill, LetsAShortJobPassAndALongOneWait) {
  Machine machine(4);
  machine.submit(0, {lasting(job("running", 2), 100), lasting(job("gang", 4), 50)});
  EXPECT_EQ(started(machine.submit(1, {lasting(job("long"), 120), lasting(job("short"), 60)})), Ids{"short"});
  machine.succeed(61, "short");
  EXPECT_EQ(started(machine.succeed(100, "running")), Ids{"gang"});
}

TEST(Backfill, LetsALongJobPassOnGpusThatTheGangLeaves) {
  Machine machine(4);
  machine.submit(0, {lasting(job("running", 2), 100), lasting(job("gang", 3), 50)});
  EXPECT_EQ(started(machine.submit(1, {lasting(job("long"), 5000), lasting(job("longer"), 5000)})), Ids{"long"});
  EXPECT_EQ(started(machine.succeed(100, "running")), Ids{"gang"});
}

TEST(Backfill, LetsNobodyPassWhileNobodyKnowsWhenTheGangBegins) {
  Machine machine(4);
  machine.submit(0, {job("unknown", 2), lasting(job("gang", 4), 50)});
  EXPECT_EQ(started(machine.submit(1, {lasting(job("short"), 1)})), Ids{});
}

TEST(Backfill, TrustsAJobThatOutlivedItsPredictionNoMore) {
  Machine machine(4);
  machine.submit(0, {lasting(job("running", 2), 100), lasting(job("gang", 3), 50)});
  EXPECT_EQ(started(machine.submit(150, {lasting(job("a"), 1000)})), Ids{});
}

TEST(Backfill, KeepsTheReservationUntilItsJobBeginsUnlessAHigherPriorityComes) {
  Machine machine(3);
  machine.submit(0, {lasting(in_chain(job("x1"), "x", 1), 10), lasting(in_chain(job("x2"), "x", 2), 200),
                     lasting(job("long"), 100), lasting(job("short"), 5), lasting(in_chain(job("gang", 3), "z", 1), 5),
                     in_chain(job("z2"), "z", 2), in_chain(job("z3"), "z", 3)});
  EXPECT_EQ(started(machine.succeed(5, "short")), Ids{});  // its GPU is kept for the gang
  EXPECT_EQ(started(machine.succeed(10, "x1")), Ids{});    // x2 is nearer to done, and would have gone first before
  EXPECT_EQ(machine.scheduler.reservation()->expected, at(100));
  EXPECT_EQ(started(machine.submit(12, {with_priority(lasting(job("urgent"), 200), 5)})), Ids{"urgent"});
}

// ---- lengths ----

TEST(Lengths, AreLearnedFromJobsOfTheSameLabel) {
  Machine machine(4);
  Job first = job("first"), running = job("running", 2), gang = lasting(job("gang", 4), 50);
  first.label = running.label = "sft";
  machine.submit(0, {first, running, gang});
  EXPECT_EQ(started(machine.submit(1, {lasting(job("short"), 10)})), Ids{});
  // It took 100 s, so the other is taken to end at about 100 s too; that is now, and nothing is known to be short
  // enough.
  machine.succeed(100, "first");
  EXPECT_EQ(machine.scheduler.reservation()->expected.has_value(), true);
  EXPECT_GE(*machine.scheduler.reservation()->expected, at(100));
  EXPECT_LE(*machine.scheduler.reservation()->expected, at(113));
}

TEST(Lengths, OfElasticJobsShrinkWithTheirGpus) {
  Machine machine(8);
  machine.submit(0, {elastic(lasting(job("a"), 80), 1, 8)});
  EXPECT_EQ(machine.gpus("a").size(), 8u);
  EXPECT_EQ(machine.scheduler.jobs().all()[0].expected_end, at(10));
}

// ---- elastic jobs ----

TEST(Elastic, TakesAllGpusAloneAndItsPartAmongOthers) {
  Machine machine(8);
  machine.submit(0, {elastic(job("a"), 1, 8), elastic(job("b"), 1, 8)});
  EXPECT_EQ(machine.gpus("a").size(), 4u);
  EXPECT_EQ(machine.gpus("b").size(), 4u);
}

TEST(Elastic, TakesNothingThatAnybodyWaitsFor) {
  Machine machine(4);
  machine.submit(0, {elastic(job("a"), 1, 8), job("b"), job("c", 2)});
  EXPECT_EQ(machine.gpus("a").size(), 1u);
  machine.submit(1, {elastic(job("d"), 1, 8)});
  EXPECT_EQ(machine.state("d"), JobState::ready);
}

TEST(Elastic, LeavesAChainAtWorkItsPart) {
  Machine machine(8);
  const Job train = in_chain(job("x.train"), "x", 1), more = in_chain(elastic(job("x.generate"), 1, 8), "x", 2);
  machine.submit(0, {train, more});
  machine.submit(1, {elastic(job("y"), 1, 8)});
  EXPECT_EQ(machine.gpus("y").size(), 4u);
  machine.succeed(2, "x.train");
  EXPECT_EQ(machine.gpus("x.generate").size(), 4u);
}

// ---- which GPUs ----

TEST(Choice, PrefersTheGpusThatWereFreeLongest) {
  Machine machine(3);
  machine.submit(0, {job("a"), job("b"), job("c")});
  machine.succeed(1, "c");
  machine.succeed(2, "a");
  machine.submit(3, {job("d")});
  EXPECT_EQ(machine.gpus("d"), Numbers{2});
}

TEST(Choice, IsLeftToWhoKnowsTheLinks) {
  const ChooseGpus last = [](std::span<const GpuNumber> free, std::size_t count, std::span<const GpuNumber>) {
    return std::vector<GpuNumber>(free.end() - static_cast<std::ptrdiff_t>(count), free.end());
  };
  Machine machine(8, {}, last);
  machine.submit(0, {job("a", 2)});
  EXPECT_EQ(machine.gpus("a"), (Numbers{6, 7}));
}

// ---- failures ----

TEST(Retry, GoesToAnotherGpu) {
  Machine machine(3);
  machine.submit(0, {with_retries(job("a"), 2)});
  EXPECT_EQ(machine.gpus("a"), Numbers{0});
  const auto decisions = machine.tell(1, Ended{{"a"}, Ended::How::out_of_memory, 0});
  EXPECT_EQ(only<Retry>(decisions), (std::vector<Retry>{{{"a"}, "out of memory", 1}}));
  EXPECT_EQ(only<Start>(decisions), (std::vector<Start>{{{"a"}, {GpuNumber{1}}, 2}}));
  machine.tell(2, Ended{{"a"}, Ended::How::killed, 9});
  EXPECT_EQ(machine.gpus("a"), Numbers{2});
  EXPECT_EQ(only<Settle>(machine.fail(3, "a")), (std::vector<Settle>{{{"a"}, Outcome::failed, "exit status 1", {}}}));
}

TEST(Retry, WaitsForAnotherGpuAndLeavesTheOneItFailedOnToOthers) {
  Machine machine(2);
  machine.submit(0, {with_retries(job("a"), 1), lasting(job("b"), 100), job("c")});
  EXPECT_EQ(started(machine.fail(1, "a")), Ids{"c"});
  EXPECT_EQ(machine.gpus("c"), Numbers{0});
  EXPECT_EQ(started(machine.succeed(2, "b")), Ids{"a"});
  EXPECT_EQ(machine.gpus("a"), Numbers{1});
}

TEST(Retry, StaysWhereThereIsNoOtherGpu) {
  Machine machine(2);
  machine.submit(0, {with_retries(job("a", 2), 1)});
  EXPECT_EQ(started(machine.fail(1, "a")), Ids{"a"});
}

TEST(Retry, TakesTheOthersFirstWhereThereAreTooFew) {
  Machine machine(3);
  machine.submit(0, {with_retries(job("a", 2), 1), job("b")});
  machine.succeed(1, "b");  // GPU 2 is free no longer than those that a leaves
  machine.fail(1, "a");
  EXPECT_EQ(machine.gpus("a"), (Numbers{0, 2}));
}

TEST(Retry, IsPassedOnTheGpusItFailedOn) {
  Machine machine(4);
  machine.submit(0, {with_retries(lasting(job("a", 2), 50), 1), lasting(job("b"), 100), lasting(job("c"), 1)});
  machine.succeed(1, "c");  // GPU 3 is free, and longer than those that a had
  EXPECT_EQ(started(machine.fail(2, "a")), Ids{});
  EXPECT_EQ(started(machine.submit(3, {lasting(job("long"), 5000)})), Ids{"long"});
  EXPECT_EQ(machine.gpus("long"), Numbers{0});
  EXPECT_EQ(started(machine.succeed(100, "b")), Ids{"a"});
  EXPECT_EQ(machine.gpus("a"), (Numbers{2, 3}));
}

TEST(Retry, FollowsAFailedStartToo) {
  Machine machine(2);
  machine.submit(0, {with_retries(job("a"), 1)});
  const auto decisions = machine.tell(0, StartFailed{{"a"}, "no such program"});
  EXPECT_EQ(only<Retry>(decisions)[0].reason, "it could not be started: no such program");
  EXPECT_EQ(machine.gpus("a"), Numbers{1});
}

TEST(Postponed, JobKeepsItsPlaceItsRetriesAndItsSuccessors) {
  Machine machine(1);
  Job next = job("next");
  next.after_ok = {{"a"}};
  machine.submit(0, {job("a"), next, job("b")});
  EXPECT_EQ(started(machine.tell(0, Postponed{{"a"}, "No space left on device"})), Ids{});
  EXPECT_EQ(machine.state("a"), JobState::ready);
  EXPECT_EQ(machine.state("next"), JobState::waiting);
  EXPECT_EQ(machine.scheduler.jobs().at(*machine.scheduler.jobs().find({"a"})).attempts, 0);
  EXPECT_EQ(machine.scheduler.next_deadline(), at(0) + pause_after(1));
  const auto decisions = machine.tell(1, Tick{});
  EXPECT_EQ(started(decisions), Ids{"a"}) << "it was first, and is first";
  EXPECT_EQ(only<Start>(decisions)[0].attempt, 1);
  EXPECT_EQ(started(machine.succeed(2, "a")), Ids{"next"});
}

TEST(Postponed, StartsWaitLongerEachTimeUntilOneBegan) {
  Machine machine(1);
  machine.submit(0, {job("a")});
  Time now = at(0);
  Duration before{0};
  for (int times = 1; times <= 12; ++times) {
    ASSERT_TRUE(machine.scheduler.apply({now, Postponed{{"a"}, "Too many open files"}}));
    const Duration pause = *machine.scheduler.next_deadline() - now;
    EXPECT_GE(pause, before);
    EXPECT_LE(pause, seconds(30));
    before = pause;
    now += pause;
    EXPECT_EQ(started(*machine.scheduler.apply({now, Tick{}})), Ids{"a"});
  }
  EXPECT_EQ(before, seconds(30));
  ASSERT_TRUE(machine.scheduler.apply({now, Ended{{"a"}, Ended::How::exited, 1}}));
  EXPECT_EQ(machine.scheduler.jobs().at(*machine.scheduler.jobs().find({"a"})).postponed, 0);
}

TEST(Postponed, NothingElseIsTriedMeanwhileWhereTheMachineIsShort) {
  Machine machine(8);
  std::vector<Job> jobs{job("none", 0)};
  for (int i = 0; i < 100; ++i) jobs.push_back(job("j" + std::to_string(i)));
  EXPECT_EQ(started(machine.submit(0, jobs)).size(), 9u);
  EXPECT_EQ(started(machine.tell(0, Postponed{{"none"}, "Resource temporarily unavailable"})), Ids{});
  EXPECT_EQ(started(machine.tell(0, Postponed{{"j0"}, "Resource temporarily unavailable"})), Ids{});
  EXPECT_EQ(started(machine.succeed(0, "j1")), Ids{});
  EXPECT_EQ(started(machine.tell(1, Tick{})), (Ids{"none", "j0", "j8"}));
}

TEST(Postponed, JobsWithoutGpusBeginWhereOnlyGpusCannotBeLeased) {
  Machine machine(1);
  machine.submit(0, {job("a")});
  machine.tell(0, Postponed{{"a"}, "the lease table is in use", Shortage::gpus});
  EXPECT_EQ(started(machine.submit(0, {job("none", 0), job("b")})), Ids{"none"});
  EXPECT_EQ(started(machine.tell(1, Tick{})), Ids{"a"});
}

TEST(Postponed, JobThatWasCancelledMeanwhileIsCancelled) {
  Machine machine(1);
  machine.submit(0, {job("a")});
  machine.tell(0, Cancelled{{"a"}});
  machine.tell(0, Postponed{{"a"}, "No space left on device"});
  EXPECT_EQ(machine.state("a"), JobState::cancelled);
  EXPECT_EQ(machine.scheduler.next_deadline(), std::nullopt) << "nobody waits for the end of the pause";
  EXPECT_TRUE(machine.scheduler.is_idle());
}

TEST(Postponed, SchedulerIsTheSameFromItsJournalAndFromASnapshot) {
  Machine machine(2);
  std::vector<Event> events{{at(0), Rules{}}, {at(0), GpuFound{"0"}}, {at(0), GpuFound{"1"}}};
  const auto tell = [&](std::int64_t second, Happening what) {
    events.push_back({at(second), what});
    return machine.tell(second, std::move(what));
  };
  tell(0, Submitted{{job("a"), job("b"), job("c")}});
  tell(0, Postponed{{"a"}, "No space left on device"});
  tell(0, Postponed{{"b"}, "the lease table is in use", Shortage::gpus});
  const Scheduler replayed = replay(events).value();
  EXPECT_EQ(replayed.snapshot(), machine.scheduler.snapshot());
  Scheduler restored;
  ASSERT_TRUE(restored.apply({at(0), machine.scheduler.snapshot()}));
  EXPECT_EQ(restored.snapshot(), machine.scheduler.snapshot());
  EXPECT_EQ(restored.next_deadline(), machine.scheduler.next_deadline());
  EXPECT_EQ(started(*restored.apply({at(1), Tick{}})), started(machine.tell(1, Tick{})));
}

TEST(Lost, GpusEndTheirJobAndItBeginsElsewhereWithoutARetry) {
  Machine machine(2);
  machine.submit(0, {job("a")});
  EXPECT_EQ(only<Stop>(machine.tell(1, GpuLost{GpuNumber{0}, "Xid 79"})),
            (std::vector<Stop>{{{"a"}, StopReason::gpu_lost}}));
  EXPECT_EQ(started(machine.tell(2, Ended{{"a"}, Ended::How::killed, 15})), Ids{"a"});
  EXPECT_EQ(machine.gpus("a"), Numbers{1});
}

TEST(Lost, GpusThatReturnBeforeTheirJobEndedAreNotFreeYet) {
  Machine machine(1);
  machine.submit(0, {job("a"), job("b")});
  machine.tell(1, GpuLost{GpuNumber{0}, "Xid 79"});
  EXPECT_EQ(started(machine.tell(2, GpuReturned{GpuNumber{0}})), Ids{});
  EXPECT_EQ(started(machine.tell(3, Ended{{"a"}, Ended::How::killed, 15})), Ids{"a"});
}

TEST(Held, GpusSendTheirJobBackToItsPlaceInTheLine) {
  Machine machine(2);
  machine.submit(0, {job("a"), job("b"), job("c")});
  EXPECT_EQ(started(machine.tell(1, GpuHeld{GpuNumber{0}, "pid 4711"})), Ids{});
  EXPECT_EQ(machine.state("a"), JobState::ready);
  EXPECT_EQ(only<Start>(machine.succeed(2, "b")), (std::vector<Start>{{{"a"}, {GpuNumber{1}}, 1}}));
  EXPECT_EQ(started(machine.tell(3, GpuReturned{GpuNumber{0}})), Ids{"c"});
}

TEST(Deadlines, StopAJobAtItsTimeoutForGood) {
  Machine machine(1);
  Job limited = with_retries(job("a"), 5);
  limited.timeout = seconds(10);
  machine.submit(0, {limited});
  EXPECT_EQ(machine.scheduler.next_deadline(), at(10));
  EXPECT_EQ(machine.tell(9, Tick{}).size(), 0u);
  EXPECT_EQ(only<Stop>(machine.tell(10, Tick{})), (std::vector<Stop>{{{"a"}, StopReason::timeout}}));
  EXPECT_EQ(machine.scheduler.next_deadline(), std::nullopt);
  const auto settled = only<Settle>(machine.tell(11, Ended{{"a"}, Ended::How::killed, 15}));
  ASSERT_EQ(settled.size(), 1u);
  EXPECT_EQ(settled[0].reason, "it ran for longer than 10 s, its timeout");
}

TEST(Deadlines, StopASilentJobAndTryItAgainElsewhere) {
  Machine machine(2);
  Job watched = with_retries(job("a"), 1);
  watched.heartbeat = seconds(10);
  machine.submit(0, {watched});
  machine.tell(8, Heartbeat{{"a"}});
  EXPECT_EQ(machine.tell(17, Tick{}).size(), 0u);
  EXPECT_EQ(only<Stop>(machine.tell(18, Tick{})), (std::vector<Stop>{{{"a"}, StopReason::heartbeat}}));
  EXPECT_EQ(started(machine.tell(19, Ended{{"a"}, Ended::How::killed, 9})), Ids{"a"});
  EXPECT_EQ(machine.gpus("a"), Numbers{1});
}

TEST(Cancel, StopsARunningJobAndDropsAWaitingOne) {
  Machine machine(1);
  machine.submit(0, {job("a"), job("b"), after_ok(job("c"), {"b"}), job("d")});
  EXPECT_EQ(only<Settle>(machine.tell(1, Cancelled{{"b"}})).size(), 2u);
  EXPECT_EQ(machine.state("c"), JobState::skipped);
  EXPECT_EQ(only<Stop>(machine.tell(2, Cancelled{{"a"}})).size(), 1u);
  EXPECT_EQ(machine.state("a"), JobState::stopping);
  EXPECT_EQ(started(machine.tell(3, Ended{{"a"}, Ended::How::killed, 15})), Ids{"d"});
  EXPECT_EQ(machine.state("a"), JobState::cancelled);
  EXPECT_FALSE(machine.scheduler.apply({at(4), Cancelled{{"a"}}}));
}

}  // namespace
}  // namespace muster::schedule

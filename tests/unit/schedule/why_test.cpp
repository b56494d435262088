#include "schedule/why.hpp"

#include <gtest/gtest.h>

#include "machine.hpp"

namespace muster::schedule {
namespace {

TEST(Why, NamesWhoHoldsTheGpusAndWhoGoesFirst) {
  Machine machine(4);
  machine.submit(0, {lasting(job("running", 3), 70), lasting(job("gang", 4), 60), lasting(job("behind", 2), 500)});
  machine.tell(10, Tick{});
  EXPECT_EQ(to_text(why(machine.scheduler, {"gang"}).value()),
            "gang is ready\n"
            "wants 4 GPUs; 1 of 4 free\n"
            "  running has GPUs 0-2, for 1 min more\n"
            "first in the line\n"
            "free GPUs are kept for it; only jobs that end before it begins, or use what it leaves, go first\n"
            "expected to begin in 1 min\n");
  EXPECT_EQ(to_text(why(machine.scheduler, {"behind"}).value()),
            "behind is ready\n"
            "wants 2 GPUs; 1 of 4 free\n"
            "  running has GPUs 0-2, for 1 min more\n"
            "1 before it in the line: gang\n"
            "free GPUs are kept for gang, which begins in 1 min\n"
            "expected to begin in 2 min\n");
}

TEST(Why, NamesTheJobsThatAreAwaited) {
  Machine machine(1);
  Job last = job("last");
  last.after = {{"first"}};
  last.after_ok = {{"second"}};
  machine.submit(0, {lasting(job("first"), 10), lasting(job("second"), 20), last});
  EXPECT_EQ(to_text(why(machine.scheduler, {"last"}).value()),
            "last is waiting\n"
            "waits until first has ended; it is running\n"
            "waits until second has succeeded; it is ready\n"
            "expected to begin in 30 s\n");
}

TEST(Why, SaysWhoseLengthNobodyKnows) {
  Machine machine(2);
  machine.submit(0, {job("unknown"), lasting(job("gang", 2), 5)});
  const Why found = why(machine.scheduler, {"gang"}).value();
  EXPECT_EQ(found.expected_start, std::nullopt);
  EXPECT_NE(to_text(found).find("unknown has no prediction"), std::string::npos) << to_text(found);
}

TEST(Why, NamesGpusThatOthersHoldOrThatAreLost) {
  Machine machine(3);
  machine.tell(0, GpuHeld{GpuNumber{1}, "pid 4711 (alice)"});
  machine.tell(0, GpuLost{GpuNumber{2}, "Xid 79"});
  machine.submit(1, {job("pair", 2)});
  const std::string text = to_text(why(machine.scheduler, {"pair"}).value());
  EXPECT_NE(text.find("  GPU 1 is held by pid 4711 (alice)\n  GPU 2 is lost: Xid 79\n"), std::string::npos) << text;
}

TEST(Why, SaysHowManyMustComeBackWhereTooFewGpusAreLeft) {
  Machine machine(3);
  machine.tell(0, GpuHeld{GpuNumber{1}, "pid 4711 (alice)"});
  machine.tell(0, GpuLost{GpuNumber{2}, "Xid 79"});
  machine.submit(1, {job("pair", 2)});
  const std::string text = to_text(why(machine.scheduler, {"pair"}).value());
  EXPECT_TRUE(text.ends_with("it begins when 1 of the 2 GPUs that are held or lost are back\n")) << text;
}

TEST(Why, SaysThatTheOnlyGpuThatIsLostMustComeBack) {
  Machine machine(2);
  machine.tell(0, GpuLost{GpuNumber{1}, "Xid 79"});
  machine.submit(1, {job("pair", 2)});
  const std::string text = to_text(why(machine.scheduler, {"pair"}).value());
  EXPECT_TRUE(text.ends_with("it begins when the GPU that is held or lost is back\n")) << text;
}

TEST(Why, SaysHowManyJobsWithoutGpusRunAtATimeAndBlamesNoneThatHasAGpu) {
  Machine machine(1);
  std::vector<Job> jobs{job("training"), job("next")};
  for (int i = 0; i < 9; ++i) jobs.push_back(job("count" + std::to_string(i), 0));
  machine.submit(0, jobs);
  EXPECT_EQ(to_text(why(machine.scheduler, {"count8"}).value()),
            "count8 is ready\n"
            "wants no GPU; 8 such jobs run at a time, and others began before it\n"
            "start time unknown: count0, count1, count2, count3, count4 have no prediction\n");
  EXPECT_EQ(to_text(why(machine.scheduler, {"next"}).value()),
            "next is ready\n"
            "wants 1 GPU; 0 of 1 free\n"
            "  training has GPU 0, end time unknown\n"
            "first in the line\n"
            "start time unknown: training has no prediction\n");
}

TEST(Why, SaysWhatIsShortAndWhenItIsTriedAgain) {
  Machine machine(1);
  machine.submit(0, {job("a"), job("none", 0)});
  machine.tell(0, Postponed{{"a"}, "cannot write /q/attempt-1.jsonl: No space left on device"});
  const std::string text = to_text(why(machine.scheduler, {"a"}).value());
  EXPECT_NE(text.find("it could not be started, and is tried again in less than 1 s: cannot write /q/attempt-1.jsonl: No space "
                      "left on device\n"),
            std::string::npos)
      << text;
}

TEST(Why, BlamesTheJobsItComesAfter) {
  Machine machine(2);
  Job last = job("last");
  last.after = {{"second"}};
  machine.submit(0, {job("first"), job("second"), last});
  const Why found = why(machine.scheduler, {"last"}).value();
  EXPECT_EQ(found.unpredicted, std::vector<JobId>{{"second"}});
}

TEST(Why, TellsWhatBecameOfASettledJob) {
  Machine machine(1);
  machine.submit(0, {job("a")});
  machine.fail(1, "a");
  EXPECT_EQ(to_text(why(machine.scheduler, {"a"}).value()), "a is failed\nexit status 1\n");
  EXPECT_FALSE(why(machine.scheduler, {"nobody"}));
}

TEST(Why, ExpectsTheStartThatComes) {
  // Every job is predicted, so what is expected at the beginning is what happens.
  Machine machine(4);
  std::vector<Job> jobs;
  for (int i = 0; i < 30; ++i) jobs.push_back(lasting(job("j" + std::to_string(i), 1 + i % 4), 10 + i * 7 % 50));
  machine.submit(0, jobs);
  Scheduler later = machine.scheduler;
  while (!later.is_idle()) {
    const auto [end, index] = *later.running().expected().begin();
    ASSERT_TRUE(later.apply({end, Ended{later.jobs().at(index).job.id}}));
  }
  for (const JobRecord& record : later.jobs().all())
    if (machine.state(record.job.id.text) == JobState::ready) {
      EXPECT_EQ(why(machine.scheduler, record.job.id)->expected_start, record.started) << record.job.id.text;
    }
}

}  // namespace
}  // namespace muster::schedule

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "monitor/file_tail.hpp"
#include "monitor/gpu_watch.hpp"
#include "monitor/run_search.hpp"
#include "monitor/run_watch.hpp"
#include "monitor/sampler.hpp"
#include "sample_for_tests.hpp"
#include "store/run_folder.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::monitor {
namespace {

using std::chrono::milliseconds;
using testing::ScratchFolder;

void write(const std::filesystem::path& path, const std::string& text, std::ios::openmode mode = std::ios::trunc) {
  std::ofstream(path, mode) << text;
}

bool answers_within(GpuWatch& watch, milliseconds patience) {
  pollfd readable{watch.descriptor(), POLLIN, 0};
  return ::poll(&readable, 1, static_cast<int>(patience.count())) > 0 && watch.receive();
}

TEST(FileTail, ReadsOnlyWhatHasChanged) {
  const ScratchFolder folder;
  FileTail tail(folder.path() / "log", 10);
  EXPECT_FALSE(tail.refresh());
  write(folder.path() / "log", "first\nsecond\n");
  EXPECT_TRUE(tail.refresh());
  EXPECT_FALSE(tail.refresh());
  EXPECT_EQ(tail.lines(5), std::vector<std::string>{"second"});  // ten bytes begin in the first line
  write(folder.path() / "log", "third", std::ios::app);
  EXPECT_TRUE(tail.refresh());
  EXPECT_EQ(tail.lines(5), std::vector<std::string>{"third"});
  write(folder.path() / "log", "anew\n\n");
  EXPECT_TRUE(tail.refresh());
  EXPECT_EQ(tail.lines(5), std::vector<std::string>{"anew"});
  std::filesystem::remove(folder.path() / "log");
  EXPECT_TRUE(tail.refresh());
  EXPECT_TRUE(tail.lines(5).empty());
}

TEST(FileTail, ShowsWhatACarriageReturnLeft) {
  const ScratchFolder folder;
  write(folder.path() / "log", "one\r\n 10%\r 20%\r 30%");
  FileTail tail(folder.path() / "log");
  tail.refresh();
  EXPECT_EQ(tail.lines(5), (std::vector<std::string>{"one", " 30%"}));
}

TEST(FileTail, DoesNotWaitForAPipe) {
  const ScratchFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "log").c_str(), 0600), 0);
  FileTail tail(folder.path() / "log");
  tail.refresh();
  EXPECT_TRUE(tail.lines(5).empty());
}

TEST(GpuWatch, BringsWhatAnotherProcessSaw) {
  const GpuReport report = busy_machine().gpus;
  auto watch = GpuWatch::start([report] {
    GpuReport seen = report;
    for (GpuSample& gpu : seen.gpus) gpu.job.reset();  // is not part of a look
    return seen;
  });
  ASSERT_TRUE(watch);
  watch->ask(GpuWatch::Clock::now());
  ASSERT_TRUE(answers_within(*watch, milliseconds(20000)));
  GpuReport expected = report;
  for (GpuSample& gpu : expected.gpus) gpu.job.reset();
  EXPECT_EQ(watch->report(), expected);
}

TEST(GpuWatch, DoesNotWaitForADriverThatHangs) {
  auto watch = GpuWatch::start([]() -> GpuReport {
    while (true) ::pause();
  });
  ASSERT_TRUE(watch);
  const auto asked = GpuWatch::Clock::now();
  watch->ask(asked);
  EXPECT_FALSE(answers_within(*watch, milliseconds(50)));
  EXPECT_EQ(watch->silent_for(asked + milliseconds(7000)), milliseconds(7000));
  EXPECT_FALSE(watch->has_answered());
}

TEST(GpuWatch, OutlivesADriverThatCrashesAndTriesAgain) {
  const ScratchFolder folder;
  const auto mark = folder.path() / "crashed";
  auto watch = GpuWatch::start([mark]() -> GpuReport {
    if (std::filesystem::exists(mark)) return {{}, "the second look"};
    write(mark, "");
    ::_exit(1);
  });
  ASSERT_TRUE(watch);
  watch->ask(GpuWatch::Clock::now());
  ASSERT_TRUE(answers_within(*watch, milliseconds(20000)));
  EXPECT_NE(watch->report().explanation.find("ended while it asked the driver"), std::string::npos);
  watch->ask(GpuWatch::Clock::now());
  ASSERT_TRUE(answers_within(*watch, milliseconds(20000)));
  EXPECT_EQ(watch->report().explanation, "the second look");
}

TEST(RunWatch, ReadsStepsLossAndTimeLeft) {
  const ScratchFolder folder;
  write(folder.path() / "events.jsonl", "{\"event\":\"attempt\",\"attempt\":1,\"steps\":100}\n");
  RunWatch watch(folder.path());
  EXPECT_EQ(watch.refresh().total, 100);
  write(folder.path() / "metrics.csv", "step,loss,seconds,tokens_per_second\n1,2.5,0.5,1000\n");
  EXPECT_EQ(watch.refresh(), (Progress{1, 100, 2.5, 1000, 49.5}));
  write(folder.path() / "metrics.csv", "2,2.25,0.5,1100\n3,", std::ios::app);
  EXPECT_EQ(watch.refresh(), (Progress{2, 100, 2.25, 1100, 49}));
}

TEST(RunSearch, FindsTheRunOfAProcessBelow) {
  const ScratchFolder folder;
  write(folder.path() / "run.json", "{}");
  write(folder.path() / "lock", "");
  EXPECT_FALSE(run_of_process(::getpid()));
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    [[maybe_unused]] const int lock = ::open((folder.path() / "lock").c_str(), O_RDONLY);
    [[maybe_unused]] const ssize_t told = ::write(ready[1], "!", 1);
    while (true) ::pause();
  }
  char told = 0;
  ASSERT_EQ(::read(ready[0], &told, 1), 1);
  EXPECT_EQ(run_of_process(::getpid()), folder.path());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(run_of_process(::getpid()));
}

TEST(Sampler, TakesAQueueThatIsNotThereForAnEmptyOne) {
  const ScratchFolder folder;
  Sampler sampler(queue::StateFolder(folder.path() / "none"), folder.path() / "runs");
  const Sample sample = sampler.take({}, {"1", 5}, Time{});
  EXPECT_TRUE(sample.jobs.empty());
  EXPECT_TRUE(sample.notes.empty());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "none"));
}

TEST(Sampler, ShowsARunThatSomebodyWorksOnAndWhoHoldsGpus) {
  const ScratchFolder folder;
  auto run = store::RunFolder::create(folder.path(), "sums", std::chrono::system_clock::now());
  ASSERT_TRUE(run);
  GpuReport report;
  for (int index = 0; index < 3; ++index)
    report.gpus.push_back(busy_machine().gpus.gpus[static_cast<std::size_t>(index)]);
  for (GpuSample& gpu : report.gpus) gpu.job.reset(), gpu.holder.reset();
  report.gpus[0].holder = report.gpus[2].holder = GpuHolder{::getpid(), "alice", "muster train", 1000};
  Sampler sampler(std::nullopt, folder.path());
  const Sample sample = sampler.take(report, {}, Time{});
  ASSERT_EQ(sample.jobs.size(), 1U);  // the run's process is the holder
  EXPECT_EQ(sample.jobs[0].id, fmt::format("pid {}", ::getpid()));
  EXPECT_EQ(sample.jobs[0].label, run->folder.name());
  EXPECT_EQ(sample.jobs[0].gpus, (std::vector{0, 2}));
  EXPECT_EQ(sample.gpus.gpus[0].job, sample.jobs[0].id);
  const Sample without_gpus = sampler.take({}, {}, Time{});
  ASSERT_EQ(without_gpus.jobs.size(), 1U);
  EXPECT_EQ(without_gpus.jobs[0].label, run->folder.name());
}

TEST(Sampler, TellsThatAQueueCannotBeRead) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder.path() / "queue");
  write(folder.path() / "queue/journal.jsonl", "what\n");
  Sampler sampler(queue::StateFolder(folder.path() / "queue"), folder.path() / "runs");
  const Sample sample = sampler.take({}, {}, Time{});
  ASSERT_EQ(sample.notes.size(), 1U);
  EXPECT_TRUE(sample.notes[0].starts_with("the queue cannot be read: "));
}

}  // namespace
}  // namespace muster::monitor

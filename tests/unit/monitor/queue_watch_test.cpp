#include "monitor/queue_watch.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "queue/request.hpp"
#include "schedule/journal.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::monitor {
namespace {

using namespace schedule;
using namespace std::chrono_literals;

constexpr monitor::Time start(1'000'000s);

// A queue's folder, written as its conductor would.
class QueueWatchTest : public ::testing::Test {
 protected:
  QueueWatchTest() {
    std::filesystem::create_directories(folder_.batches());
    std::filesystem::create_directories(folder_.inbox());
  }

  void happens(std::chrono::seconds after, Happening what) {
    std::ofstream(folder_.journal(), std::ios::app) << to_line({start + after, std::move(what)}) << "\n";
  }

  static Job job(const std::string& id, int gpus, const std::string& label = "") {
    Job made;
    made.id = {id};
    made.gpus = GpuRequest::exactly(gpus);
    made.label = label;
    return made;
  }

  // Submitted together, with the commands "work <id>".
  queue::Batch batch(const std::vector<Job>& jobs) {
    queue::Batch made;
    made.folder = "/";
    for (const Job& one : jobs) made.jobs.push_back({one, {"work", one.id.text}});
    return made;
  }
  void submit(std::chrono::seconds after, const std::vector<Job>& jobs) {
    std::ofstream(folder_.batches() / (jobs.front().id.text + ".jsonl")) << to_text(queue::Request(batch(jobs)));
    happens(after, Submitted{jobs});
  }

  Sample look(std::chrono::seconds after) {
    Sample sample;
    const auto problem = watch_.refresh(start + after);
    if (problem) sample.notes.push_back(*problem);
    watch_.add_jobs(sample, {{"uuid-a", 5}});
    return sample;
  }

  testing::ScratchFolder scratch_;
  queue::StateFolder folder_{scratch_.path()};
  QueueWatch watch_{folder_};
};

TEST_F(QueueWatchTest, ShowsRunningThenWaitingThenTheNewestSettled) {
  happens(0s, GpuFound{"uuid-a"});
  submit(1s, {job("1", 0), job("2", 0), job("3", 1), job("4", 1)});
  happens(3s, Ended{{"2"}, Ended::How::exited, 0});
  happens(4s, Ended{{"1"}, Ended::How::exited, 7});
  submit(5s, {job("5", 0, "late")});
  const Sample sample = look(10s);
  ASSERT_EQ(sample.notes, std::vector<std::string>{});
  std::vector<std::string> seen;
  for (const JobSample& one : sample.jobs) seen.push_back(one.id + " " + one.state + " " + one.command);
  EXPECT_EQ(seen, (std::vector<std::string>{"3 running work 3", "5 running work 5", "4 ready work 4", "1 failed work 1",
                                            "2 succeeded work 2"}));
  EXPECT_EQ(sample.counts, (JobCounts{2, 1, 2}));
  EXPECT_EQ(sample.jobs[0].gpus, std::vector{5});  // as users call it
  EXPECT_EQ(sample.jobs[0].since, start + 1s);
  EXPECT_EQ(sample.jobs[2].gpus_wanted, 1);
  EXPECT_EQ(sample.jobs[3].reason, "exit status 7");
  EXPECT_EQ(watch_.jobs_on_gpus(), (std::map<std::string, std::string>{{"uuid-a", "3"}}));
}

TEST_F(QueueWatchTest, SeesWhatIsWrittenLater) {
  EXPECT_TRUE(look(0s).jobs.empty());
  submit(1s, {job("1", 0)});
  EXPECT_EQ(look(2s).jobs.at(0).state, "running");
  happens(3s, Ended{{"1"}, Ended::How::exited, 0});
  EXPECT_EQ(look(4s).jobs.at(0).state, "succeeded");
}

TEST_F(QueueWatchTest, ExpectsAJobToTakeAsLongAsOthersOfItsLabel) {
  submit(0s, {job("1", 0, "same")});
  happens(100s, Ended{{"1"}, Ended::How::exited, 0});
  submit(200s, {job("2", 0, "same"), job("3", 0, "other")});
  const Sample sample = look(210s);
  ASSERT_EQ(sample.jobs[0].id, "2");
  ASSERT_TRUE(sample.jobs[0].progress.seconds_left);
  EXPECT_GE(*sample.jobs[0].progress.seconds_left, 90);
  EXPECT_LE(*sample.jobs[0].progress.seconds_left, 190);
  EXPECT_FALSE(sample.jobs[1].progress.seconds_left);
}

TEST_F(QueueWatchTest, ReadsProgressFromTheLogAndItsLinesForWhoLooksCloser) {
  submit(0s, {job("1", 0)});
  std::filesystem::create_directories(folder_.job({"1"}));
  std::ofstream(folder_.log({"1"})) << "begun\nstep 5/10  loss 0.5  lr 1  norm 1  7 tokens/s  3 s left\n";
  const JobSample seen = look(1s).jobs.at(0);
  EXPECT_EQ(seen.progress, (Progress{5, 10, 0.5, 7, 3}));
  EXPECT_TRUE(seen.last_line.starts_with("step 5/10"));
  std::ofstream(folder_.log({"1"}), std::ios::app) << "saving\n";
  EXPECT_EQ(look(2s).jobs.at(0).last_line, "saving");
  EXPECT_EQ(look(2s).jobs.at(0).progress.step, 5);  // the last that is known
  EXPECT_EQ(watch_.lines_of("1", 2)->back(), "saving");
  EXPECT_FALSE(watch_.lines_of("2", 2));
}

TEST_F(QueueWatchTest, SaysWhatAJobWaitsFor) {
  Job second = job("2", 0);
  second.after_ok = {{"1"}};
  submit(0s, {job("1", 0), second});
  look(1s);
  const auto lines = watch_.lines_of("2", 10);
  ASSERT_TRUE(lines);
  EXPECT_EQ(lines->front(), "waits until 1 has succeeded; it is running");
}

TEST_F(QueueWatchTest, ShowsWhatNobodyHasTakenYet) {
  std::ofstream(folder_.inbox() / "1.jsonl") << to_text(queue::Request(batch({job("1", 2, "new")})));
  const Sample sample = look(0s);
  ASSERT_EQ(sample.jobs.size(), 1U);
  EXPECT_EQ(sample.jobs[0].state, "submitted");
  EXPECT_EQ(sample.jobs[0].command, "work 1");
  EXPECT_EQ(sample.jobs[0].gpus_wanted, 2);
  EXPECT_EQ(sample.counts.waiting, 1U);
}

TEST_F(QueueWatchTest, ShowsNoJobOfAJournalThatIsGoneBesideOneThatIsDamaged) {
  happens(0s, GpuFound{"uuid-a"});
  submit(1s, {job("1", 0), job("2", 0), job("3", 1)});
  ASSERT_EQ(look(2s).jobs.size(), 3u);
  const auto other = scratch_.path() / "other";
  std::ofstream(other) << "no event\n";
  std::filesystem::rename(other, folder_.journal());
  const Sample sample = look(3s);
  EXPECT_EQ(sample.notes.size(), 1u);
  EXPECT_TRUE(sample.jobs.empty());
}

}  // namespace
}  // namespace muster::monitor

#include "queue/archive.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "system/files.hpp"
#include "queue/archive_index.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::queue {
namespace {

ArchivedJob archived(const std::string& id, schedule::JobState state = schedule::JobState::succeeded) {
  ArchivedJob job;
  job.record.job.id.text = id;
  job.record.job.gpus = schedule::GpuRequest::exactly(2);
  job.record.state = state;
  job.record.submitted = schedule::Time(schedule::Duration(1000));
  job.record.started = schedule::Time(schedule::Duration(2000));
  job.record.ended = schedule::Time(schedule::Duration(3000));
  job.record.attempts = 2;
  job.record.gpus = {schedule::GpuNumber{1}, schedule::GpuNumber{3}};
  job.record.last_end = schedule::ProcessEnd{schedule::HowEnded::exited, 3};
  job.record.reason = "exit status 3 \"ä\"\n";
  job.command = {"sh", "-c", "echo \"x\"\n"};
  return job;
}

struct Archive : ::testing::Test {
  Archive() { EXPECT_TRUE(folder.prepare()); }
  void add(const std::vector<std::string>& ids) {
    std::vector<ArchivedJob> jobs;
    for (const std::string& id : ids) jobs.push_back(archived(id));
    ASSERT_TRUE(add_to_archive(folder, jobs));
  }
  std::vector<std::string> ids() const {
    std::vector<std::string> ids;
    const auto jobs = read_archive(folder).value();
    for (const ArchivedJob& job : jobs) ids.push_back(job.record.job.id.text);
    return ids;
  }
  // What an index that was opened now tells, and what the archive itself does.
  void expect_found(const std::string& id, bool is_there) const {
    ScannedArchive scanned(folder);
    for (ArchiveIndex* index : {open_archive_index(folder).release(), static_cast<ArchiveIndex*>(&scanned)}) {
      const auto found = index->find({id, "nobody"}).value();
      ASSERT_EQ(found.size(), is_there ? 1u : 0u) << id;
      if (is_there) {
        EXPECT_EQ(found.front(), archived(id));
      }
      EXPECT_EQ(index->count().value(), ids().size());
      if (index != &scanned) delete index;
    }
  }

  const testing::ScratchFolder scratch;
  const StateFolder folder{scratch.path() / "queue"};
};
using Ids = std::vector<std::string>;

TEST_F(Archive, IsReadBackAsItWasWritten) {
  const ArchivedJob job = archived("7", schedule::JobState::failed);
  EXPECT_EQ(read_archived(to_line(job), "test").value(), job);
  EXPECT_FALSE(read_archived("{", "test"));
  EXPECT_FALSE(read_archived(R"({"id":"7"})", "test"));
}

TEST_F(Archive, CountsAJobOnceThatWasArchivedTwice) {
  EXPECT_EQ(ids(), Ids{});
  add({"9", "10"});
  add({"10", "2"});
  EXPECT_EQ(ids(), (Ids{"2", "9", "10"}));
  expect_found("10", true);
  expect_found("11", false);
}

TEST_F(Archive, LeavesOutALineThatWasNeverFinished) {
  add({"1", "2"});
  std::filesystem::resize_file(folder.archive(), std::filesystem::file_size(folder.archive()) - 5);
  EXPECT_EQ(ids(), Ids{"1"});
  expect_found("2", false);
  add({"3"});
  EXPECT_EQ(ids(), (Ids{"1", "3"}));
  expect_found("3", true);
}

TEST_F(Archive, ForgetsWhatIsTakenOut) {
  add({"1", "2", "3", "2"});
  expect_found("1", true);
  ASSERT_TRUE(remove_from_archive(folder, {"1", "nobody"}));
  EXPECT_EQ(ids(), (Ids{"2", "3"}));
  expect_found("1", false);
  expect_found("3", true);
}

TEST_F(Archive, IsFoundInWhateverBecomesOfItsIndex) {
  add({"1", "2"});
  expect_found("2", true);
  add({"3"});
  expect_found("3", true);
  for (const char* file : {"archive.sqlite", "archive.sqlite-wal", "archive.sqlite-shm"})
    std::filesystem::remove(folder.path() / file);
  expect_found("3", true);
  scratch.write("queue/archive.sqlite",
                "this is no database, and long enough to be taken for one by its size alone ...");
  expect_found("2", true);
}

TEST_F(Archive, TakesTheOldestThatNobodyWaitsFor) {
  schedule::Scheduler scheduler;
  const auto tell = [&](int second, schedule::Happening what) {
    ASSERT_TRUE(scheduler.apply({schedule::Time(std::chrono::seconds(second)), std::move(what)}));
  };
  schedule::Submitted submitted;
  for (const char* id : {"1", "2", "3", "4", "5"}) {
    schedule::Job job;
    job.id.text = id;
    job.gpus = schedule::GpuRequest::exactly(0);
    if (job.id.text == "5") job.after = {{"1"}, {"4"}};
    submitted.jobs.push_back(job);
  }
  tell(0, submitted);
  tell(1, schedule::Ended{{"1"}});
  tell(2, schedule::Ended{{"3"}});
  tell(3, schedule::Ended{{"2"}});
  const auto leaving = [&](std::size_t kept) {
    std::vector<std::string> ids;
    for (const schedule::JobIndex job : jobs_to_archive(scheduler, kept))
      ids.push_back(scheduler.jobs().at(job).job.id.text);
    std::ranges::sort(ids);
    return ids;
  };
  EXPECT_EQ(leaving(3), Ids{});
  EXPECT_EQ(leaving(1), Ids{"3"});  // and 1, were it not for 5
  EXPECT_EQ(leaving(0), (Ids{"2", "3"}));
}

}  // namespace
}  // namespace muster::queue

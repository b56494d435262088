#include "queue/request.hpp"

#include <gtest/gtest.h>

#include "testing/scratch_folder.hpp"

namespace muster::queue {
namespace {

Batch example() {
  Batch batch{"/work", {{"A", "1"}, {"LINES", "a\nb"}}, {}, 022};
  for (const char* id : {"7", "8"}) {
    QueuedJob queued;
    queued.job.id = {id};
    queued.job.gpus = schedule::GpuRequest::exactly(2);
    queued.job.after_ok = {{"3"}};
    queued.job.timeout = std::chrono::minutes(1);
    queued.job.label = "ä";
    queued.command = {"sh", "-c", "echo \"x\"\n"};
    batch.jobs.push_back(std::move(queued));
  }
  return batch;
}

TEST(Request, IsReadBackAsItWasWritten) {
  Batch closed = example();
  closed.umask = 077;
  const Request batch(closed), stop(StopRequest{{{"1"}, {"2"}}}), forget(ForgetRequest{{{"3"}}});
  EXPECT_EQ(parse_request(to_text(forget), "test").value(), forget);
  EXPECT_EQ(parse_request(to_text(batch), "test").value(), batch);
  EXPECT_EQ(parse_request(to_text(stop), "test").value(), stop);
}

TEST(Request, IsRefusedWhereverItIsCutOff) {
  const std::string text = to_text(example());
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(parse_request(std::string_view(text).substr(0, length), "test")) << length;
}

TEST(Request, RefusesWhatIsNoText) {
  Batch batch = example();
  batch.environment["BAD"] = "\xff";
  const auto checked = check(batch);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().what.find("BAD"), std::string::npos);
}

TEST(Request, GetsIdsThatNobodyElseGot) {
  const testing::ScratchFolder scratch;
  const StateFolder folder(scratch.path() / "queue");
  ASSERT_TRUE(folder.prepare());
  for (const char* first : {"1", "3", "5"}) {
    Request request(example());
    ASSERT_TRUE(hand_in(folder, request));
    EXPECT_EQ(std::get<Batch>(request).jobs.front().job.id.text, first);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.inbox()), {}), 3);
}

TEST(Request, TurnsNamesAmongItsJobsIntoIds) {
  const testing::ScratchFolder scratch;
  const StateFolder folder(scratch.path() / "queue");
  ASSERT_TRUE(folder.prepare());
  Batch batch = example();
  batch.jobs[0].job.id = {"first"};
  batch.jobs[1].job.id = {};
  batch.jobs[1].job.after_ok = {{"3"}, {"first"}};
  batch.jobs[1].job.after = {{"first"}};
  Request request(std::move(batch));
  ASSERT_TRUE(hand_in(folder, request));
  const Batch& handed_in = std::get<Batch>(request);
  EXPECT_EQ(handed_in.jobs[0].job.id.text, "1");
  EXPECT_EQ(handed_in.jobs[1].job.after_ok, (std::vector<schedule::JobId>{{"3"}, {"1"}}));
  EXPECT_EQ(handed_in.jobs[1].job.after, (std::vector<schedule::JobId>{{"1"}}));
}

TEST(Request, IsNotHandedInWhereTheCounterIsDamaged) {
  const testing::ScratchFolder scratch;
  const StateFolder folder(scratch.path() / "queue");
  ASSERT_TRUE(folder.prepare());
  scratch.write("queue/counter", "many\n");
  Request request(example());
  EXPECT_FALSE(hand_in(folder, request));
  EXPECT_TRUE(std::filesystem::is_empty(folder.inbox()));
}

TEST(Request, IsNotHandedInWhereTheCounterOfAQueueIsGone) {
  const testing::ScratchFolder scratch;
  const StateFolder folder(scratch.path() / "queue");
  ASSERT_TRUE(folder.prepare());
  Request request(example());
  ASSERT_TRUE(hand_in(folder, request));
  scratch.write("queue/journal.jsonl", "");
  std::filesystem::remove(folder.counter());
  EXPECT_FALSE(hand_in(folder, request)) << "the numbers of old jobs would be given again";
}

TEST(Command, IsSpokenAsItWasTyped) {
  EXPECT_EQ(spoken_command(shell_command("a | b")), "a | b");
  EXPECT_EQ(spoken_command({"python", "train.py"}), "python train.py");
  EXPECT_EQ(spoken_command({"python", "train.py", "--name", "a run", "x=$HOME", ""}),
            "python train.py --name 'a run' 'x=$HOME' ''");
  EXPECT_EQ(spoken_command({"/bin/sh", "-c"}), "/bin/sh -c");
}

}  // namespace
}  // namespace muster::queue

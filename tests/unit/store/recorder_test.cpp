#include "store/run_recorder.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "system/files.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::store {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;
const Moment noon = *parse_timestamp("2026-08-01T12:00:00.000Z");

class Recorder : public ::testing::Test {
 protected:
  RunRecorder begin(std::int64_t after = 0, const std::vector<std::string>& columns = {"loss"}) {
    return std::move(RunRecorder::begin(held_.folder, columns, noon, after)).value();
  }
  static void add(RunRecorder& recorder, std::int64_t step) {
    const std::vector<Measured> measured{{"loss", 1.0 / static_cast<double>(step)}};
    const auto added = recorder.add_step(noon, step, measured);
    ASSERT_TRUE(added) << added.error().what;
  }
  std::vector<std::int64_t> steps() const { return read_metrics(held_.folder.metrics())->steps; }
  std::vector<std::string> tensorboard_files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(held_.folder.path()))
      if (entry.path().filename().string().starts_with("events.out."))
        names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

  const testing::ScratchFolder scratch_;
  const HeldRun held_ = std::move(RunFolder::create(scratch_.path(), "sums", noon)).value();
};

TEST_F(Recorder, HasEachStepOnceAfterARestart) {
  RunRecorder recorder = begin();
  for (int step = 1; step <= 7; ++step) add(recorder, step);
  ASSERT_TRUE(recorder.go_back_to(noon, 5));
  for (int step = 6; step <= 8; ++step) add(recorder, step);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(tensorboard_files().size(), 2u);
}

TEST_F(Recorder, GoesOnInAnotherProcessWithColumnsThatAreNew) {
  {
    RunRecorder recorder = begin();
    for (int step = 1; step <= 7; ++step) add(recorder, step);
  }
  RunRecorder recorder = begin(3, {"loss", "exact_match"});
  EXPECT_EQ(recorder.last_step(), 3);
  add(recorder, 4);
  const std::vector<Measured> evaluation{{"exact_match", 0.5}};
  ASSERT_TRUE(recorder.add_to_step(noon, 4, evaluation));
  EXPECT_EQ(read_file(held_.folder.metrics()).value(),
            "step,loss,exact_match\n1,1,\n2,0.5,\n3,0.3333333333333333,\n4,0.25,0.5\n");
}

TEST_F(Recorder, RecordsAnEvaluationThatIsRepeatedOnce) {
  RunRecorder recorder = begin(0, {"loss", "exact_match"});
  add(recorder, 1);
  const std::vector<Measured> evaluation{{"exact_match", 0.5}}, other{{"exact_match", 0.75}};
  ASSERT_TRUE(recorder.add_to_step(noon, 1, evaluation));
  const auto size = [&] { return fs::file_size(held_.folder.path() / tensorboard_files().back()); };
  const auto before = size();
  ASSERT_TRUE(recorder.add_to_step(noon, 1, evaluation));
  EXPECT_EQ(size(), before);
  ASSERT_TRUE(recorder.add_to_step(noon, 1, other));
  EXPECT_GT(size(), before);
  EXPECT_EQ(read_metrics(held_.folder.metrics())->last("exact_match"), 0.75);
  EXPECT_FALSE(recorder.add_to_step(noon, 2, other));
}

TEST_F(Recorder, BeginsAgainWhereItsFirstWriteWasTorn) {
  std::ofstream(held_.folder.metrics()) << "step,lo";
  RunRecorder recorder = begin();
  add(recorder, 1);
  EXPECT_EQ(steps(), std::vector<std::int64_t>{1});
}

TEST_F(Recorder, EndsWithAPlotAndAResult) {
  RunRecorder recorder = begin();
  add(recorder, 1);
  RunResult result;
  result.steps = 1;
  ASSERT_TRUE(recorder.finish(result));
  EXPECT_TRUE(read_file(held_.folder.loss_plot())->starts_with("<svg "));
  EXPECT_EQ(json::parse(read_file(held_.folder.result()).value()).at("status"), "done");
}

TEST_F(Recorder, WritesEventsAsLinesAndCutsATornOne) {
  {
    RunRecorder recorder = begin();
    ASSERT_TRUE(recorder.add_event(noon, "started"));
    ASSERT_TRUE(recorder.add_event(noon, "failed", 3, {{"what", "no\nmemory\xFF"}}));
  }
  std::ofstream(held_.folder.events(), std::ios::app) << R"({"time": "2026)";
  RunRecorder recorder = begin();
  ASSERT_TRUE(recorder.add_event(noon, "resumed"));
  const auto events = read_last_events(held_.folder.events());
  ASSERT_TRUE(events);
  ASSERT_EQ(events->size(), 3u);
  EXPECT_EQ((*events)[0].dump(), R"({"time":"2026-08-01T12:00:00.000Z","event":"started"})");
  EXPECT_EQ((*events)[1].at("rank"), 3);
  EXPECT_EQ((*events)[1].at("what"), "no\nmemory\xEF\xBF\xBD");
  EXPECT_EQ((*events)[2].at("event"), "resumed");
}

}  // namespace
}  // namespace muster::store

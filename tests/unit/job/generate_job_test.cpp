#include "job/generate/generate_job.hpp"

#include <gtest/gtest.h>

#include "job/generate/generate_rows.hpp"
#include "json/fields.hpp"
#include "system/files.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::job {
namespace {

class GenerateJobTest : public ::testing::Test {
 protected:
  GenerateJob job(const std::string& prompts, GenerateJob::Window window = {}) {
    const std::string path = folder_.write("p.jsonl", prompts).string();
    auto file = PromptFile::open(path, task_.score ? PromptUse::scores : PromptUse::prompts);
    auto output = LineOutput::open(output_);
    GenerateListener listener;
    listener.progress = [this](const GenerateProgress& progress) { progress_ = progress; };
    listener.note = [this](const std::string& text) { notes_.push_back(text); };
    GenerateJob::Setting setting{task_, ranks_, total_};
    setting.answered = answered_;
    setting.window = window;
    return {std::move(file.value()), std::move(output.value()), std::move(setting), listener};
  }
  static Result<void> tell(GenerateJob& job, wire::EventBody body, int rank = 0) {
    return job.on_event({std::chrono::system_clock::now(), rank, std::move(body)});
  }
  static std::int64_t given(GenerateJob& job, int rank = 0) {
    const auto next = job.next_request(rank);
    const auto* request = next ? std::get_if<wire::Request>(&*next) : nullptr;
    return request == nullptr ? -1 : request->index;
  }
  static wire::TaskResult answer(std::int64_t index, std::int64_t dropped = 0) {
    wire::GenerationResult result;
    result.samples.push_back({"text " + std::to_string(index), {1, 2}, "stop", {-1, -2}});
    result.prompt_tokens = 5;
    result.dropped_tokens = dropped;
    return {index, print_fields(result)};
  }
  std::string written() const { return read_file(output_).value(); }
  static std::string many(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += R"({"prompt": "p", "id": "name )" + std::to_string(i) + "\"}\n";
    return text;
  }

  testing::ScratchFolder folder_;
  std::string output_ = (folder_.path() / "out.jsonl").string();
  wire::GenerateTask task_;
  GenerateProgress progress_;
  int ranks_ = 1;
  std::optional<std::int64_t> total_;
  AnsweredRows answered_;
  std::vector<std::string> notes_;
};

TEST_F(GenerateJobTest, WritesAnswersInTheOrderOfThePromptsWithTheirIds) {
  GenerateJob run = job(many(3));
  ASSERT_TRUE(tell(run, wire::Ready{"cpu"}));
  for (std::int64_t index = 0; index < 3; ++index) ASSERT_EQ(given(run), index);
  EXPECT_TRUE(std::holds_alternative<wire::EndOfRequests>(*run.next_request(0)));
  ASSERT_TRUE(tell(run, answer(2)));
  EXPECT_EQ(written(), "");
  ASSERT_TRUE(tell(run, answer(0)));
  ASSERT_TRUE(tell(run, answer(1, 3)));
  EXPECT_EQ(written(),
            R"({"index":0,"id":"name 0","sample":0,"text":"text 0","tokens":[1,2],"finish":"stop"})"
            "\n"
            R"({"index":1,"id":"name 1","sample":0,"text":"text 1","tokens":[1,2],"finish":"stop","dropped_tokens":3})"
            "\n"
            R"({"index":2,"id":"name 2","sample":0,"text":"text 2","tokens":[1,2],"finish":"stop"})"
            "\n");
  const GenerateSummary summary = run.summary();
  EXPECT_EQ(summary.prompts, 3);
  EXPECT_EQ(summary.tokens, 6);
  EXPECT_EQ(summary.prompt_tokens, 15);
  EXPECT_EQ(summary.shortened, 1);
  ASSERT_EQ(summary.notes.size(), 1u);
  EXPECT_NE(summary.notes[0].find("p.jsonl:2"), std::string::npos) << summary.notes[0];
  EXPECT_EQ(run.missing(), 0u);
  EXPECT_EQ(progress_.prompts, 3);
}

TEST_F(GenerateJobTest, PromptsRunNoFurtherAheadThanTheWindow) {
  GenerateJob run = job(many(10), {.prompts = 3, .bytes = 1 << 20});
  ASSERT_TRUE(tell(run, wire::Ready{"cpu"}));
  for (std::int64_t index = 0; index < 3; ++index) ASSERT_EQ(given(run), index);
  EXPECT_TRUE(std::holds_alternative<wire::NotYet>(*run.next_request(0)));
  EXPECT_EQ(run.input(), std::nullopt);  // nothing but a result can change that
  ASSERT_TRUE(tell(run, answer(1)));
  EXPECT_EQ(given(run), 3);
}

TEST_F(GenerateJobTest, ResultsThatWaitForAnEarlierOneTakeNoMoreMemoryThanTheWindow) {
  GenerateJob run = job(many(10), {.prompts = 1000, .bytes = 100 + 2 * OrderedResults::entry_bytes});
  ASSERT_TRUE(tell(run, wire::Ready{"cpu"}));
  for (std::int64_t index = 0; index < 4; ++index) ASSERT_EQ(given(run), index);
  ASSERT_TRUE(tell(run, answer(1)));
  ASSERT_TRUE(tell(run, answer(2)));
  EXPECT_TRUE(std::holds_alternative<wire::NotYet>(*run.next_request(0)));
  ASSERT_TRUE(tell(run, answer(0)));
  EXPECT_EQ(given(run), 4);
}

TEST_F(GenerateJobTest, WhatADeadRankHadIsRedoneAndALateAnswerOfItIsDropped) {
  ranks_ = 2;
  GenerateJob run = job(many(3));
  ASSERT_TRUE(tell(run, wire::Ready{"cpu"}, 0));
  ASSERT_EQ(given(run, 0), 0);
  ASSERT_EQ(given(run, 1), 1);
  ASSERT_TRUE(run.rank_left(0, "gone"));
  EXPECT_EQ(notes_, (std::vector<std::string>{"rank 0 is gone; the prompt it had is redone by the others"}));
  EXPECT_EQ(given(run, 1), 0);
  EXPECT_EQ(given(run, 1), 2);
  for (const std::int64_t index : {1, 0, 2, 0}) ASSERT_TRUE(tell(run, answer(index), 1));
  EXPECT_TRUE(std::holds_alternative<wire::EndOfRequests>(*run.next_request(1)));
  EXPECT_EQ(run.summary().prompts, 3);
  EXPECT_EQ(run.summary().redone, 1);
  EXPECT_EQ(run.summary().lost_ranks, 1);
}

TEST_F(GenerateJobTest, RanksThatHoldOneModelBetweenThemAreLostTogether) {
  ranks_ = 4;
  task_.stages = {{0, 0}, {1, 1}};
  GenerateJob run = job(many(4));
  ASSERT_TRUE(tell(run, wire::Ready{"cpu"}, 0));
  ASSERT_EQ(given(run, 0), 0);
  ASSERT_EQ(given(run, 2), 1);
  ASSERT_TRUE(run.rank_left(3, "gone"));  // the second stage of the second replica
  EXPECT_TRUE(run.is_stranded(2));
  EXPECT_FALSE(run.is_stranded(1));
  EXPECT_EQ(given(run, 2), -1);
  EXPECT_EQ(given(run, 0), 1);
  ASSERT_TRUE(run.rank_left(2, std::nullopt));
  EXPECT_EQ(run.summary().lost_ranks, 2);
  EXPECT_EQ(run.summary().redone, 1);
}

TEST_F(GenerateJobTest, ARankWithNothingLeftToDoStaysWhileAnotherHasPrompts) {
  ranks_ = 2;
  total_ = 2;
  GenerateJob run = job(many(2));
  ASSERT_TRUE(tell(run, wire::Ready{"cpu"}, 0));
  ASSERT_EQ(given(run, 0), 0);
  ASSERT_EQ(given(run, 1), 1);
  ASSERT_TRUE(tell(run, answer(1), 1));
  EXPECT_TRUE(std::holds_alternative<wire::NotYet>(*run.next_request(1)));
  EXPECT_TRUE(std::holds_alternative<wire::EndOfRequests>(*run.next_request(0)));
  ASSERT_TRUE(run.rank_left(0, "gone"));
  EXPECT_EQ(given(run, 1), 0);
  ASSERT_TRUE(tell(run, answer(0), 1));
  EXPECT_TRUE(std::holds_alternative<wire::EndOfRequests>(*run.next_request(1)));
  EXPECT_EQ(run.missing(), 0u);
}

TEST_F(GenerateJobTest, PromptsThatAnEarlierRunAnsweredArePassedOver) {
  folder_.write("out.jsonl", "first\nsecond\ntor");
  answered_ = {2, 13};
  GenerateJob run = job(many(3));
  ASSERT_TRUE(tell(run, wire::Ready{"cpu"}));
  EXPECT_EQ(written(), "first\nsecond\n");
  EXPECT_EQ(given(run), 2);
  EXPECT_EQ(given(run), -1);
  ASSERT_TRUE(tell(run, answer(2)));
  EXPECT_TRUE(written().starts_with("first\nsecond\n{\"index\":2,"));
  EXPECT_EQ(run.summary().earlier, 2);
  EXPECT_EQ(run.summary().prompts, 1);
}

TEST_F(GenerateJobTest, TokensOfAllRanksAddUp) {
  ranks_ = 2;
  GenerateJob run = job(many(3));
  for (const int rank : {0, 1}) ASSERT_TRUE(tell(run, wire::Ready{"cuda:0"}, rank));
  ASSERT_TRUE(tell(run, wire::Progress{"tokens", 30, std::nullopt}, 0));
  ASSERT_TRUE(tell(run, wire::Progress{"tokens", 12, std::nullopt}, 1));
  ASSERT_TRUE(tell(run, wire::Progress{"memory", 1 << 30, std::int64_t{4} << 30}, 1));
  EXPECT_EQ(progress_.tokens, 42);
  ASSERT_TRUE(progress_.memory);
  EXPECT_EQ(progress_.memory->peak, 1 << 30);
  EXPECT_EQ(progress_text(progress_).substr(0, 9), "0 prompts");
  EXPECT_TRUE(progress_text(progress_).ends_with("1.0 GiB of 4.0 GiB")) << progress_text(progress_);
}

TEST_F(GenerateJobTest, AResultThatNobodyWaitsForIsRefused) {
  GenerateJob run = job(many(2));
  ASSERT_TRUE(tell(run, wire::Ready{"cpu"}));
  ASSERT_EQ(given(run), 0);
  EXPECT_FALSE(tell(run, answer(1)));
  ASSERT_TRUE(tell(run, answer(0)));
  EXPECT_FALSE(tell(run, answer(0)));
  EXPECT_FALSE(tell(run, wire::TaskResult{0, "{}"}));
}

TEST_F(GenerateJobTest, ScoresHaveTheirOwnRows) {
  task_.score = task_.log_probabilities = true;
  GenerateJob run = job("{\"prompt\": \"a\", \"completion\": \" b\", \"max_new_tokens\": 3}\n");
  ASSERT_TRUE(tell(run, wire::Ready{"cpu"}));
  const auto next = run.next_request(0);
  EXPECT_EQ(std::get<wire::Request>(*next).row, R"({"prompt":"a","max_new_tokens":3,"completion":" b"})");
  wire::ScoreResult score{-3.5, 2, 1, 0, {-1.5, -2}};
  ASSERT_TRUE(tell(run, wire::TaskResult{0, print_fields(score)}));
  EXPECT_EQ(written(), R"({"index":0,"id":null,"logprob":-3.5,"token_count":2,"logprobs":[-1.5,-2.0]})"
                       "\n");
}

TEST(ProgressText, TellsLoadingThenPromptsSpeedAndTimeLeft) {
  GenerateProgress progress;
  EXPECT_EQ(progress_text(progress), "starting");
  progress.what = "loading";
  progress.share = 0.25;
  EXPECT_EQ(progress_text(progress), "loading: 25 %");
  progress.loading = false;
  EXPECT_EQ(progress_text(progress), "0 prompts");
  progress.total = 400;
  progress.prompts = 100;
  progress.tokens = 5000;
  progress.generating = std::chrono::seconds(10);
  EXPECT_EQ(progress_text(progress), "100/400 prompts, 500 tokens/s, 30 s left");
  progress.prompts = 400;
  EXPECT_EQ(progress_text(progress), "400/400 prompts, 500 tokens/s");
}

}  // namespace
}  // namespace muster::job

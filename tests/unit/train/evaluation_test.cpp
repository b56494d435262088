// Loss and answers, over ranks of which one may run out of memory.
#include "train/evaluation.hpp"
#include "train/objectives/supervised.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <map>
#include <thread>

#include "../data/byte_text.hpp"
#include "communicate/thread_group.hpp"
#include "data/token_file.hpp"
#include "parallel/strategy.hpp"
#include "scarce_memory.hpp"
#include "small_model.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::train {
namespace {

using testing::ScarceMemory;
using testing::small_model;

std::string some_samples(const muster::testing::ScratchFolder& folder) {
  const auto place = folder.path() / "tokens";
  auto writer = data::TokenFileWriter::create(place).value();
  for (std::int32_t i = 0; i < 13; ++i) {
    data::Sample sample;
    const std::int32_t length = 4 + i * 7 % 19;
    for (std::int32_t k = 0; k < length; ++k) sample.tokens.push_back((i * 11 + k * 5) % 67);
    sample.trained.push_back({1, static_cast<std::uint32_t>(length)});
    EXPECT_TRUE(writer.add(sample));
  }
  EXPECT_TRUE(writer.commit({}));
  return place.string();
}

std::string some_questions(const muster::testing::ScratchFolder& folder, int count) {
  const auto place = folder.path() / "questions.jsonl";
  std::ofstream file(place);
  for (int i = 0; i < count; ++i)
    file << R"({"prompt": ")" << std::string(static_cast<std::size_t>(1 + i % 5), '7') << i << R"(=", "answer": "46"})"
         << "\n";
  return place.string();
}

struct Found {
  std::optional<double> loss;
  std::int64_t tokens = 0;
  std::map<std::size_t, std::string> answers;
  bool ran_out = false;
};

// What the second of two ranks is given.
struct Memory {
  std::optional<int> pieces = {};
  std::size_t most = std::numeric_limits<std::size_t>::max();  // bytes of a piece
};

// What two ranks find.
Found measure(const EvaluationSource& source, bool sharded, const Memory& memory) {
  ScarceMemory::instance();
  const chat::ModelText text = data::byte_text();
  spec::ModelConfig config = small_model();
  config.vocabulary = 300;  // all that the text has, and more
  const auto ranks = communicate::make_thread_group(2, std::chrono::seconds(20));
  std::vector<Found> found(ranks.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      threads.emplace_back([&, rank] {
        const at::NoGradGuard forward_only;
        tensor::DeviceOps ops = *tensor::make_device_ops({});
        auto model = model::CausalModel::unfilled(config, ops, at::kFloat,
                                                  sharded ? model::Memory::later : model::Memory::now);
        const auto strategy = sharded ? parallel::make_shards(model, ops, {*ranks[rank]}, {false, false, false})
                                      : parallel::make_replicas(model, ops, *ranks[rank], false);
        for (const parallel::Shard& shard : strategy->shards()) {
          at::Tensor master = shard.master;
          master.copy_(at::linspace(-0.3, 0.4, master.numel()).cos());
        }
        strategy->publish();
        auto evaluation = Evaluation::make(source, {text, model, ops, *ranks[rank], {}}, make_supervised()).value();
        ScarceMemory::least = 256;  // sums that are kept from pass to pass are there
        if (rank == 1) {
          ScarceMemory::pieces_left = memory.pieces;
          ScarceMemory::most = memory.most;
        }
        const EvaluationResult result = evaluation.measure();
        Found& own = found[rank];
        own = {result.all.loss, result.all.tokens, {}, rank == 1 && memory.pieces && !ScarceMemory::pieces_left};
        for (const GivenAnswer& answer : result.answers) own.answers[answer.question] = answer.text;
        ScarceMemory::pieces_left.reset();
        ScarceMemory::most = std::numeric_limits<std::size_t>::max();
      });
  }
  EXPECT_EQ(found[0].loss, found[1].loss);
  found[0].answers.merge(found[1].answers);
  found[0].ran_out = found[1].ran_out;
  return found[0];
}

TEST(Evaluation, OfARankThatRunsOutOfMemoryIsMadeAgainBySmallerPasses) {
  const muster::testing::ScratchFolder folder;
  const EvaluationSource source{some_samples(folder), std::nullopt, 4};
  for (const bool sharded : {false, true}) {
    const Found roomy = measure(source, sharded, {});
    ASSERT_TRUE(roomy.loss && *roomy.loss > 0);
    int ran_out = 0;
    for (int pieces = 0; pieces < 160; pieces += 13) {
      SCOPED_TRACE(::testing::Message() << (sharded ? "shards, " : "replicas, ") << pieces << " pieces of memory");
      const Found scarce = measure(source, sharded, {pieces});
      EXPECT_EQ(scarce.loss, roomy.loss);
      EXPECT_EQ(scarce.tokens, roomy.tokens);
      ran_out += scarce.ran_out;
    }
    EXPECT_GT(ran_out, 5);
  }
}

TEST(Evaluation, QuestionsOfARankThatRunsOutOfMemoryAreAnsweredAgain) {
  const muster::testing::ScratchFolder folder;
  for (const int questions : {13, 1})  // of the one, the second rank has none, and only walks along
    for (const bool sharded : {false, true}) {
      const EvaluationSource source{std::nullopt, some_questions(folder, questions), 4, 8};
      const Found roomy = measure(source, sharded, {});
      ASSERT_EQ(std::ssize(roomy.answers), questions);
      int ran_out = 0;
      const int step = questions == 1 ? 3 : 23;  // who walks along needs few
      for (int pieces = 0; pieces < 13 * step; pieces += step) {
        SCOPED_TRACE(::testing::Message() << questions << " questions, " << (sharded ? "shards, " : "replicas, ")
                                          << pieces << " pieces of memory");
        const Found scarce = measure(source, sharded, {pieces});
        EXPECT_EQ(scarce.answers, roomy.answers);
        ran_out += scarce.ran_out;
      }
      EXPECT_GT(ran_out, questions == 1 && !sharded ? 0 : 5);
    }
}

TEST(Evaluation, QuestionsAreAnsweredFewerAtOnceWhereMemoryIsFor32) {
  const muster::testing::ScratchFolder folder;
  const EvaluationSource source{std::nullopt, some_questions(folder, 13), 4, 64};
  for (const bool sharded : {false, true}) {
    // The keys of a layer take 64 tokens × 2 heads × 12 numbers of each of 64 sequences: 393,216 bytes.
    EXPECT_EQ(measure(source, sharded, {.most = 200'000}).answers, measure(source, sharded, {}).answers);
  }
}

}  // namespace
}  // namespace muster::train

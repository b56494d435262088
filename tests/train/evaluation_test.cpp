// The loss on prepared data, over ranks of which one may run out of memory.
#include "train/evaluation.hpp"

#include <gtest/gtest.h>

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
  EXPECT_TRUE(writer.commit(0, 0));
  return place.string();
}

struct Found {
  std::optional<double> loss;
  std::int64_t tokens = 0;
  bool ran_out = false;
};

// What two ranks find. scarce: pieces of memory that the second one is given.
Found measure(const std::string& data, bool sharded, std::optional<int> scarce) {
  ScarceMemory::instance();
  const chat::ModelText text = data::byte_text();
  const auto ranks = communicate::make_thread_group(2, std::chrono::seconds(20));
  std::vector<Found> found(ranks.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      threads.emplace_back([&, rank] {
        const at::NoGradGuard forward_only;
        tensor::Arithmetic arithmetic = *tensor::make_arithmetic({});
        auto model = model::CausalModel::unfilled(small_model(), arithmetic, at::kFloat,
                                                  sharded ? model::Memory::later : model::Memory::now);
        const auto strategy = sharded ? parallel::make_shards(model, arithmetic, {*ranks[rank]}, {false, false, false})
                                      : parallel::make_replicas(model, arithmetic, *ranks[rank], false);
        for (const parallel::Shard& shard : strategy->shards()) {
          at::Tensor master = shard.master;
          master.copy_(at::linspace(-0.3, 0.4, master.numel()).cos());
        }
        strategy->publish();
        auto evaluation =
            Evaluation::make({data, std::nullopt, 4}, {text, model, arithmetic, *ranks[rank], {}}).value();
        ScarceMemory::least = 256;  // sums that are kept from pass to pass are there
        if (rank == 1) ScarceMemory::pieces_left = scarce;
        const EvaluationResult result = evaluation.measure();
        found[rank] = {result.all.loss, result.all.tokens, rank == 1 && scarce && !ScarceMemory::pieces_left};
        ScarceMemory::pieces_left.reset();
      });
  }
  EXPECT_EQ(found[0].loss, found[1].loss);
  return {found[0].loss, found[0].tokens, found[1].ran_out};
}

TEST(Evaluation, OfARankThatRunsOutOfMemoryIsMadeAgainBySmallerPasses) {
  const muster::testing::ScratchFolder folder;
  const std::string data = some_samples(folder);
  for (const bool sharded : {false, true}) {
    const Found roomy = measure(data, sharded, std::nullopt);
    ASSERT_TRUE(roomy.loss && *roomy.loss > 0);
    int ran_out = 0;
    for (int pieces = 0; pieces < 160; pieces += 13) {
      SCOPED_TRACE(::testing::Message() << (sharded ? "shards, " : "replicas, ") << pieces << " pieces of memory");
      const Found scarce = measure(data, sharded, pieces);
      EXPECT_EQ(scarce.loss, roomy.loss);
      EXPECT_EQ(scarce.tokens, roomy.tokens);
      ran_out += scarce.ran_out;
    }
    EXPECT_GT(ran_out, 5);
  }
}

}  // namespace
}  // namespace muster::train

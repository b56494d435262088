// Steps of training over ranks that are threads: whatever the layout, the masters have the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <thread>

#include "communicate/thread_group.hpp"
#include "model/random_source.hpp"
#include "optimizer/optimizer.hpp"
#include "scarce_memory.hpp"
#include "small_model.hpp"
#include "tensor/device_ops.hpp"
#include "train/gradient_norm.hpp"
#include "train/objective_pass.hpp"
#include "train/objectives/supervised.hpp"

namespace muster::train {
namespace {

using communicate::Communicator;
using parallel::Strategy;
using testing::ScarceMemory;
using Numbers = std::vector<float>;

constexpr std::int64_t steps = 2;
constexpr std::size_t sequences = 6;
constexpr float nowhere = std::numeric_limits<float>::quiet_NaN();  // of an element that the rank does not hold

spec::ModelConfig config_of(spec::Family family, bool tied) {
  spec::ModelConfig config = testing::small_model(family);
  config.kv_heads = family == spec::Family::gpt2 ? 4 : 2;
  config.tied = tied;
  return config;
}

data::MicroBatch batch_of(const std::vector<std::size_t>& numbers) {
  data::MicroBatch batch;
  for (const std::size_t number : numbers) {
    const auto rows = static_cast<std::int64_t>(5 + 3 * number);
    for (std::int64_t i = 0; i < rows; ++i) {
      if (i % 3 != 0) {
        batch.trained_rows.push_back(batch.rows());
        batch.targets.push_back((i * 7 + static_cast<std::int64_t>(number)) % 67);
      }
      batch.tokens.push_back((i * 5 + static_cast<std::int64_t>(number) * 11) % 67);
    }
    batch.parts.push_back(rows);
  }
  return batch;
}

struct Layout {
  std::string name;
  int ranks = 1;
  bool sharded = true;
  int group = 0;  // ranks of a copy; 0: all
  bool keeps_parameters = false;
  std::size_t micro_batch = 1;
  model::Recompute recompute = model::Recompute::nothing;
  bool exact = true;
  at::ScalarType type = at::kFloat;
  at::ScalarType state = at::kFloat;
  spec::OptimizerKind optimizer = spec::OptimizerKind::adamw;
  std::optional<int> short_of_memory = {};  // after so many pieces, rank 1, in its first try of a step
};

// What a run ends with: whole tensors of masters and moments by name, the norms of all steps, a loss measured at the
// end.
struct Outcome {
  std::map<std::string, Numbers> tensors;
  std::vector<double> norms;
  std::vector<std::int64_t> loss;
  std::int64_t shard_elements = 0;  // of a rank
  bool ran_out = false;             // of memory, a rank
};

class Rank {
 public:
  Rank(const spec::ModelConfig& config, const Layout& layout, Communicator& all, Communicator* of_copy,
       Communicator* of_part)
      : layout_(layout),
        all_(all),
        ops_(*tensor::make_device_ops({})),
        model_(model::CausalModel::unfilled(config, ops_, layout.type,
                                            layout.sharded ? model::Memory::later : model::Memory::now)) {
    if (layout.sharded)
      strategy_ = parallel::make_shards(model_, ops_, {of_copy != nullptr ? *of_copy : all, of_part},
                                        {layout.keeps_parameters, false, layout.exact, layout.state});
    else
      strategy_ = parallel::make_replicas(model_, ops_, all, layout.exact, layout.state);
    optimizer_ = optimizer::make_optimizer({.kind = layout.optimizer}, *ops_.training, *strategy_);
    passes_.emplace(make_supervised(), model_, ops_, false);
    const auto source = model::make_random_source(config, 1);
    for (const parallel::Shard& shard : strategy_->shards())
      for (const parallel::FlatPiece& piece : shard.pieces) {
        at::Tensor whole = at::empty({piece.rows * piece.columns.value_or(1)}, at::kFloat);
        EXPECT_TRUE(source->read(piece.tensor, {}, spec::ElementType::float32,
                                 {static_cast<std::byte*>(whole.mutable_data_ptr()), whole.nbytes()}));
        if (piece.transposed) whole = whole.view({*piece.columns, piece.rows}).t().contiguous().view(-1);
        at::Tensor master = shard.master;
        master.narrow(0, piece.offset, piece.count).copy_(whole.narrow(0, piece.first, piece.count));
      }
    strategy_->publish();
  }

  Outcome run() {
    Outcome outcome;
    for (std::int64_t step = 1; step <= steps; ++step) {
      if (layout_.short_of_memory) learn(true);
      learn(false);
      const double norm = squared_norm(*strategy_, *ops_.training);
      outcome.norms.push_back(norm);
      optimizer_->step(step, 1e-2, std::min(1.0, 0.5 / std::sqrt(norm)));
      strategy_->publish();
    }
    measure(outcome);
    outcome.ran_out = ran_out_;
    for (std::size_t i = 0; i < strategy_->shards().size(); ++i) {
      const parallel::Shard& shard = strategy_->shards()[i];
      outcome.shard_elements += shard.master.numel();
      keep(outcome, shard.pieces, "parameter", shard.master);
      for (const auto& state : optimizer_->states())
        keep(outcome, numbers_of(state, model::UnitId{i}, shard.pieces), state.name, state.of_shards[i]);
    }
    return outcome;
  }

 private:
  // As many passes as every rank has: the last rank's last ones are empty.
  std::vector<data::MicroBatch> passes() const {
    const auto ranks = static_cast<std::size_t>(all_.size()), rank = static_cast<std::size_t>(all_.rank());
    const std::size_t each = (sequences + ranks - 1) / ranks;
    const std::size_t count = (each + layout_.micro_batch - 1) / layout_.micro_batch;
    std::vector<std::vector<std::size_t>> numbers(count);
    for (std::size_t mine = 0; mine < each; ++mine)
      if (const std::size_t number = mine * ranks + rank; number < sequences)
        numbers[mine / layout_.micro_batch].push_back(number);
    std::vector<data::MicroBatch> made;
    for (const auto& some : numbers) made.push_back(batch_of(some));
    return made;
  }

  void learn(bool runs_out) {
    strategy_->begin_step();
    const auto all = passes();
    for (const data::MicroBatch& pass : all) {
      if (&pass == &all.back()) strategy_->begin_last_pass();
      const PassOptions options{1.0 / 64, layout_.recompute};
      if (pass.trained_rows.empty()) {
        strategy_->idle_pass(model::PassKind::learn);
      } else if (runs_out && all_.rank() == 1) {
        learn_in_scarce_memory(pass, options);
      } else {
        passes_->learn(pass, options, *strategy_);
      }
    }
    strategy_->finish_gradients();
  }

  void learn_in_scarce_memory(const data::MicroBatch& pass, const PassOptions& options) {
    ScarceMemory::pieces_left = layout_.short_of_memory;
    bool learnt = false;
    try {
      passes_->learn(pass, options, *strategy_);
      learnt = true;
    } catch (const c10::OutOfMemoryError&) {
      ran_out_ = true;
    }
    // For what is left it is short once more.
    ScarceMemory::pieces_left = *layout_.short_of_memory % 11;
    try {
      if (!learnt) strategy_->abandon_pass();
    } catch (const c10::OutOfMemoryError&) {
      strategy_->abandon_pass();
    }
    ScarceMemory::pieces_left.reset();
  }

  void measure(Outcome& outcome) {
    at::Tensor sum = at::zeros({3}, at::kLong);
    for (const data::MicroBatch& pass : passes())
      if (pass.trained_rows.empty())
        strategy_->idle_pass(model::PassKind::measure);
      else
        sum += passes_->measure(pass, {});
    all_.all_reduce(sum);
    for (int i = 0; i < 3; ++i) outcome.loss.push_back(sum[i].item<std::int64_t>());
  }

  static void keep(Outcome& outcome, const std::vector<parallel::FlatPiece>& pieces, const std::string& state,
                   const at::Tensor& held) {
    const at::Tensor flat = held.to(at::kFloat);
    for (const parallel::FlatPiece& piece : pieces) {
      Numbers& whole = outcome.tensors[piece.tensor + ":" + state];
      whole.resize(static_cast<std::size_t>(piece.rows * piece.columns.value_or(1)), nowhere);
      std::memcpy(whole.data() + piece.first, flat.const_data_ptr<float>() + piece.offset,
                  static_cast<std::size_t>(piece.count) * sizeof(float));
    }
  }

  Layout layout_;
  Communicator& all_;
  tensor::DeviceOps ops_;
  model::CausalModel model_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<optimizer::Optimizer> optimizer_;
  std::optional<ObjectivePass> passes_;
  bool ran_out_ = false;
};

using Group = std::vector<std::unique_ptr<Communicator>>;

// What rank 0 ends with, and of tensors what lies on the other ranks of its copy.
Outcome train(const spec::ModelConfig& config, const Layout& layout) {
  constexpr std::chrono::seconds patience(60);
  const auto count = static_cast<std::size_t>(layout.ranks);
  const auto group = static_cast<std::size_t>(layout.group == 0 ? layout.ranks : layout.group);
  const Group all = communicate::make_thread_group(layout.ranks, patience);
  std::vector<Group> copies, parts;
  if (group < count) {
    for (std::size_t i = 0; i < count / group; ++i)
      copies.push_back(communicate::make_thread_group(static_cast<int>(group), patience));
    for (std::size_t i = 0; i < group; ++i)
      parts.push_back(communicate::make_thread_group(static_cast<int>(count / group), patience));
  }
  std::vector<Outcome> outcomes(count);
  std::vector<std::string> thrown(count);
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < count; ++rank)
      threads.emplace_back([&, rank] {
        const at::NoGradGuard forward_only;
        try {
          outcomes[rank] =
              Rank(config, layout, *all[rank], copies.empty() ? nullptr : copies[rank / group][rank % group].get(),
                   parts.empty() ? nullptr : parts[rank % group][rank / group].get())
                  .run();
        } catch (const std::exception& problem) {
          thrown[rank] = problem.what();
          for (const auto& communicator : all) communicator->abort("a rank failed");
        }
      });
  }
  for (const std::string& problem : thrown) EXPECT_EQ(problem, "");
  Outcome& first = outcomes.front();
  for (const Outcome& outcome : outcomes) first.ran_out |= outcome.ran_out;
  if (!layout.sharded) return first;
  for (std::size_t rank = 1; rank < group; ++rank)
    for (auto& [name, numbers] : outcomes[rank].tensors) {
      Numbers& whole = first.tensors[name];
      whole.resize(numbers.size(), nowhere);
      for (std::size_t i = 0; i < numbers.size(); ++i)
        if (!std::isnan(numbers[i])) whole[i] = numbers[i];
    }
  return first;
}

void expect_same_bits(const Outcome& expected, const Outcome& found) {
  EXPECT_EQ(expected.norms, found.norms);
  EXPECT_EQ(expected.loss, found.loss);
  ASSERT_EQ(expected.tensors.size(), found.tensors.size());
  for (const auto& [name, numbers] : expected.tensors) {
    const Numbers& other = found.tensors.at(name);
    ASSERT_EQ(numbers.size(), other.size()) << name;
    EXPECT_EQ(std::memcmp(numbers.data(), other.data(), numbers.size() * sizeof(float)), 0) << name;
  }
}

const Layout one_rank{"one rank", 1, false};

std::vector<Layout> layouts() {
  using model::Recompute;
  return {{"ddp on 2", 2, false},
          {"full_shard on 1", 1, true},
          {"full_shard on 2", 2, true, 0, false, 2, Recompute::blocks},
          {"full_shard on 3", 3, true, 0, false, 1, Recompute::cheap},
          {"full_shard on 4, some passes empty", 4, true},
          {"shard_grad_op on 2", 2, true, 0, true, 3},
          {"shard_grad_op on 3", 3, true, 0, true, 1, Recompute::blocks},
          {"hybrid_shard 2 x 2", 4, true, 2, false, 2, Recompute::cheap},
          {"hybrid_shard 2 x 1", 2, true, 1, false, 1}};
}

class Sharded : public ::testing::TestWithParam<std::tuple<spec::Family, bool, at::ScalarType>> {};

TEST_P(Sharded, EveryLayoutGivesTheSameBits) {
  const auto [family, tied, type] = GetParam();
  const spec::ModelConfig config = config_of(family, tied);
  Layout alone = one_rank;
  alone.type = type;
  const Outcome expected = train(config, alone);
  ASSERT_NE(expected.norms[0], expected.norms[1]);
  for (Layout layout : layouts()) {
    SCOPED_TRACE(layout.name);
    layout.type = type;
    expect_same_bits(expected, train(config, layout));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Sharded,
                         ::testing::Values(std::tuple(spec::Family::llama, true, at::kFloat),
                                           std::tuple(spec::Family::qwen2, false, at::kFloat),
                                           std::tuple(spec::Family::gpt2, true, at::kFloat),
                                           std::tuple(spec::Family::qwen3, true, at::kBFloat16)));

// Matrices with moments in 8 bits, beside others without.
spec::ModelConfig wider_config(spec::Family family, bool tied) {
  spec::ModelConfig config = config_of(family, tied);
  config.hidden = 64;
  config.head_size = 16;
  return config;
}

TEST(Shards, MomentsInEightBitsHaveTheSameBitsInEveryLayout) {
  for (const spec::Family family : {spec::Family::llama, spec::Family::gpt2}) {
    const spec::ModelConfig config = wider_config(family, family == spec::Family::gpt2);
    Layout alone = one_rank;
    alone.optimizer = spec::OptimizerKind::adamw_8bit;
    const Outcome expected = train(config, alone);
    int coded = 0;
    for (const auto& [name, numbers] : expected.tensors) coded += name.ends_with(":second_moment_codes") ? 1 : 0;
    EXPECT_EQ(coded, family == spec::Family::llama ? 3 * 5 + 1 : 3 * 4);  // of each block, and the head
    for (Layout layout : layouts()) {
      SCOPED_TRACE(layout.name);
      layout.optimizer = alone.optimizer;
      expect_same_bits(expected, train(config, layout));
    }
  }
}

TEST(Shards, PlainSumsDifferByRoundingAlone) {
  const spec::ModelConfig config = config_of(spec::Family::llama, false);
  Layout alone = one_rank, four{"full_shard on 4", 4};
  alone.exact = four.exact = false;
  const Outcome expected = train(config, alone), found = train(config, four);
  EXPECT_NEAR(expected.norms[0], found.norms[0], 1e-5 * expected.norms[0]);
  for (const auto& [name, numbers] : expected.tensors) {
    if (!name.ends_with(":parameter")) continue;
    for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_NEAR(numbers[i], found.tensors.at(name)[i], 2e-3) << name;
  }
}

// Wherever in a pass: nobody waits in vain, and the step can be computed again.
TEST(Shards, ARankThatRunsOutOfMemoryTakesPartInWhatIsLeft) {
  ScarceMemory::instance();
  for (const bool tied : {false, true}) {
    const spec::ModelConfig config = config_of(spec::Family::llama, tied);
    const Outcome expected = train(config, one_rank);
    bool ran_out = true;
    int pieces = 0;
    for (; ran_out; pieces += 1 + pieces / 32) {
      Layout layout =
          pieces % 2 == 0 ? Layout{"full_shard on 2", 2, true, 0, false, 2} : Layout{"hybrid_shard 2 x 2", 4, true, 2};
      SCOPED_TRACE(layout.name + ", pieces " + std::to_string(pieces));
      layout.short_of_memory = pieces;
      const Outcome found = train(config, layout);
      expect_same_bits(expected, found);
      ran_out = found.ran_out;
    }
    EXPECT_GT(pieces, 100);
  }
}

// With several passes replicas round once a pass where shards round a pass's gradient and then its sum.
TEST(Shards, StatesOfBfloat16HaveTheBitsOfReplicasWhereARankHasOnePass) {
  for (const spec::Family family : {spec::Family::llama, spec::Family::gpt2}) {
    const spec::ModelConfig config = config_of(family, true);
    for (const int ranks : {1, 2, 3}) {
      Layout replicas{"ddp", ranks, false}, sharded{"full_shard", ranks};
      for (Layout* layout : {&replicas, &sharded}) {
        layout->micro_batch = sequences;
        layout->exact = false;
        layout->type = layout->state = at::kBFloat16;
      }
      const Outcome expected = train(config, replicas), found = train(config, sharded);
      EXPECT_EQ(expected.loss, found.loss);
      EXPECT_EQ(expected.tensors, found.tensors);
      for (const auto& [name, numbers] : expected.tensors)
        for (const float number : numbers) ASSERT_EQ(number, static_cast<float>(c10::BFloat16(number))) << name;
    }
  }
}

TEST(Shards, MomentsInEightBitsBesideBfloat16HaveTheBitsOfReplicas) {
  const spec::ModelConfig config = wider_config(spec::Family::llama, false);
  for (const int ranks : {1, 2, 3}) {
    Layout replicas{"ddp", ranks, false}, sharded{"full_shard", ranks};
    for (Layout* layout : {&replicas, &sharded}) {
      layout->micro_batch = sequences;
      layout->exact = false;
      layout->type = layout->state = at::kBFloat16;
      layout->optimizer = spec::OptimizerKind::adamw_8bit;
    }
    expect_same_bits(train(config, replicas), train(config, sharded));
  }
}

TEST(Shards, ARankHoldsItsPartAndNoMore) {
  const spec::ModelConfig config = config_of(spec::Family::llama, true);
  const std::int64_t whole = train(config, one_rank).shard_elements;
  const std::int64_t part = train(config, {"full_shard on 4", 4}).shard_elements;
  constexpr std::int64_t units = 5;
  EXPECT_LE(part, whole / 4 + units * parallel::flat_alignment);
}

}  // namespace
}  // namespace muster::train

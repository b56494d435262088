// The memory model beside what PyTorch measured on a GPU: bench/results, one row per cell (bench/memory/measure.py).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "system/files.hpp"
#include "plan/memory_model.hpp"
#include "spec/model/quantized/packed_modules.hpp"

namespace muster::plan {
namespace {

using Json = nlohmann::json;

constexpr double bound = 0.05;  // of the measured peak, for every cell
const std::filesystem::path bench = MUSTER_BENCH;

const std::map<std::string, spec::ModelConfig>& measured_models() {
  static const std::map<std::string, spec::ModelConfig> models = [] {
    std::map<std::string, spec::ModelConfig> read;
    const Json shapes = Json::parse(*read_file(bench / "memory/shapes.json"));
    for (const auto& [name, shape] : shapes.items())
      read.emplace(name, spec::parse_model_config(shape.dump(), name).value());
    return read;
  }();
  return models;
}

std::vector<Json> rows_of(std::string_view file) {
  std::ifstream stream(bench / "results" / file);
  std::vector<Json> rows;
  for (std::string line; std::getline(stream, line);) rows.push_back(Json::parse(line));
  return rows;
}

// autocast, and FSDP's mixed: weights are float32, products are computed in bfloat16.
WeightType weights_of(const std::string& dtype) {
  if (dtype == "bfloat16") return WeightType::bfloat16;
  return dtype == "float16" ? WeightType::float16 : WeightType::float32;
}

template <class Enum>
Enum word_of(const std::string& text) {
  for (const auto& word : spec::words(Enum{}))
    if (word.text == text) return word.value;
  throw std::invalid_argument(text);
}

Workload workload_of(const Json& row) {
  Workload work;
  work.work = row.at("work") == "train" ? Work::training : Work::inference;
  work.weights = weights_of(row.at("dtype"));
  work.mixed_precision = row.at("dtype") == "autocast" || row.at("dtype") == "mixed";
  work.attention = word_of<spec::Attention>(row.value("attention", "sdpa"));
  work.micro_batch = row.at("batch");
  work.sequence = row.at("sequence");
  if (work.work == Work::training) {
    work.optimizer = word_of<spec::OptimizerKind>(row.at("optimizer"));
    if (row.at("checkpointing")) work.recomputation = spec::Recomputation::full;
    work.accumulation = row.value("accumulation", 1);
  } else {
    work.new_tokens = row.at("new_tokens");
    work.sequence += work.new_tokens;  // a cell's sequence is its prompt
  }
  return work;
}

// What several ranks do (bench/memory/measure_sharded.py): "fsdp2" reshards after the forward pass, "fsdp2_keep" does not.
Layout layout_of(const Json& row) {
  if (!row.contains("strategy")) return {};
  const std::string strategy = row.at("strategy");
  Layout layout{Scheme::fsdp, spec::ShardingStrategy::full_shard, false, row.at("world"), row.at("world")};
  if (strategy == "ddp") layout.scheme = Scheme::ddp;
  if (strategy == "shard_grad_op" || strategy == "fsdp2_keep") layout.sharding = spec::ShardingStrategy::shard_grad_op;
  return layout;
}

std::int64_t predicted_peak(const Json& row) {
  const spec::ModelConfig& config = measured_models().at(row.at("model"));
  const Workload work = workload_of(row);
  const auto held = work.weights == WeightType::float32 ? spec::ElementType::float32 : spec::ElementType::bfloat16;
  const ModelWeight weight = weigh(spec::build_shape(config, held), work.weights);
  return device_memory(config, weight, work, layout_of(row), whole_model(config, weight), MemoryConstants{}).peak();
}

double relative_error(std::int64_t predicted, std::int64_t measured) {
  return static_cast<double>(predicted - measured) / static_cast<double>(measured);
}

void expect_every_cell_within_the_bound(std::string_view file, std::size_t cells) {
  const std::vector<Json> rows = rows_of(file);
  ASSERT_EQ(rows.size(), cells) << file;
  double worst = 0, sum = 0;
  for (const Json& row : rows) {
    const std::int64_t predicted = predicted_peak(row), measured = row.at("peak");
    const double error = relative_error(predicted, measured);
    EXPECT_LE(std::abs(error), bound) << fmt::format("predicted {}, measured {}: {}", predicted, measured, row.dump());
    worst = std::max(worst, std::abs(error));
    sum += std::abs(error);
  }
  ::testing::Test::RecordProperty("worst_error", fmt::format("{:.4f}", worst));
  ::testing::Test::RecordProperty("mean_error", fmt::format("{:.4f}", sum / static_cast<double>(rows.size())));
}

TEST(MeasuredMemory, EveryCellIsWithinFivePercent) { expect_every_cell_within_the_bound("memory_h200.jsonl", 277); }

TEST(MeasuredMemory, EveryInferenceCellIsWithinFivePercent) {
  expect_every_cell_within_the_bound("memory_h200_inference.jsonl", 50);
}

// Cells of odd sizes, and of two models, that had no part in the making of the model.
TEST(MeasuredMemory, EveryHeldOutCellIsWithinFivePercent) {
  expect_every_cell_within_the_bound("memory_h200_held_out.jsonl", 77);
}

// Two ranks on one GPU: DDP, FSDP 1 and 2, in bfloat16 and in mixed precision.
TEST(MeasuredMemory, EveryShardedCellIsWithinFivePercent) {
  expect_every_cell_within_the_bound("memory_h200_sharded.jsonl", 22);
}

// Beside the smallest limit under which PyTorch still ran each cell (bench/memory/measure.py --limits): never short of
// it by more than the peak may be off, and not far above.
TEST(MeasuredMemory, NeedsAreThoseUnderWhichCellsStillRan) {
  int cells = 0;
  for (const Json& row : rows_of("memory_h200_limits.jsonl")) {
    if (!row.contains("smallest_limit")) continue;
    ++cells;
    const spec::ModelConfig& config = measured_models().at(row.at("model"));
    Workload work = workload_of(row);
    work.expandable_segments = row.value("allocator", "") == "expandable";
    const auto held = work.weights == WeightType::float32 ? spec::ElementType::float32 : spec::ElementType::bfloat16;
    const ModelWeight weight = weigh(spec::build_shape(config, held), work.weights);
    const DeviceMemory memory =
        device_memory(config, weight, work, Layout{}, whole_model(config, weight), MemoryConstants{});
    const auto predicted = static_cast<double>(memory.peak() + memory[Component::slack]);
    const double measured = row.at("smallest_limit").get<double>() * row.at("peak").get<double>();
    EXPECT_GE(predicted, 0.95 * measured) << predicted / measured << " " << row.dump();
    EXPECT_LE(predicted, 1.3 * measured) << predicted / measured << " " << row.dump();
  }
  EXPECT_EQ(cells, 26);
}

// How bench/train laid a model over ranks.
Layout own_layout(const Json& row) {
  Layout layout;
  layout.world = layout.shard_group = row.at("ranks");
  const std::string strategy = row.at("strategy");
  if (strategy == "single") return layout;
  layout.scheme = strategy == "ddp" ? Scheme::ddp : Scheme::fsdp;
  layout.offload = strategy == "offload";
  if (strategy == "shard_grad_op") layout.sharding = spec::ShardingStrategy::shard_grad_op;
  return layout;
}

// muster's engine, ranks on one GPU that take all sequences of a step in one pass (bench/train).
TEST(MeasuredMemory, OwnTrainingIsWithinTwoPercent) {
  const std::map<std::string, std::string> models{
      {"qwen2.5-0.5b", "qwen2-0.5b"}, {"qwen2.5-1.5b", "qwen2-1.5b"}, {"qwen2.5-7b", "qwen2-7b"}};
  int cells = 0;
  for (const char* file : {"train_h200.jsonl", "train_memory_h200.jsonl"})
    for (const Json& row : rows_of(file)) {
      if (row.at("question") == "saving") continue;
      ++cells;
      const bool narrow = row.contains("settings") && row.at("settings") == Json({"training.mixed_precision=no"});
      ASSERT_TRUE(row.at("dtype") == "bfloat16" && (narrow || row.value("settings", Json::array()).empty()));
      const spec::ModelConfig& config = measured_models().at(models.at(row.at("shape")));
      Workload work;
      work.work = Work::training;
      work.implementation = Implementation::muster;
      work.weights = narrow ? WeightType::bfloat16 : WeightType::float32;
      work.mixed_precision = !narrow;
      work.recomputation = word_of<spec::Recomputation>(row.value("recompute", "none"));
      work.micro_batch = row.at("batch");
      work.sequence = row.at("length");
      const ModelWeight weight = weigh(spec::build_shape(config, spec::ElementType::float32), work.weights);
      const std::int64_t measured = row.contains("measured") ? row.at("measured") : row.at("muster_peak");
      const std::int64_t predicted =
          device_memory(config, weight, work, own_layout(row), whole_model(config, weight), MemoryConstants{}).peak();
      EXPECT_LE(std::abs(relative_error(predicted, measured)), 0.02) << predicted << " " << row.dump();
    }
  EXPECT_EQ(cells, 20);
}

// Adapters of rank 16 beside all linear layers, one GPU, sequences of 2048 tokens, bfloat16.
std::int64_t peak_of_adapters(const std::string& shape_name, Implementation implementation, std::int64_t batch,
                              bool is_packed, double dropout, spec::Recomputation recomputation) {
  const spec::ModelConfig& config = measured_models().at(shape_name);
  const spec::ModelShape shape = spec::build_shape(config, spec::ElementType::bfloat16);
  Workload work;
  work.work = Work::training;
  work.implementation = implementation;
  work.micro_batch = batch;
  work.sequence = 2048;
  work.recomputation = recomputation;
  work.adapters = adapters_beside(shape, {.rank = 16, .dropout = dropout}).value();
  if (is_packed)
    work.packed = PackedWeights{{.code = spec::PackedCode::nf4}, spec::packed_weights(shape, {}).value()};
  const ModelWeight weight = weigh(shape, work);
  return device_memory(config, weight, work, {}, whole_model(config, weight), {}).peak();
}

// PEFT over transformers in eager mode, on the H200 on which muster's were measured.
TEST(MeasuredMemory, AdaptersOfPeftAreWithinFivePercent) {
  using enum spec::Recomputation;
  struct Cell {
    const char* shape;
    std::int64_t batch;
    spec::Recomputation recomputation;
    double gibibytes;
  };
  for (const Cell& cell : {Cell{"qwen2-7b", 1, none, 35.4}, {"qwen2-7b", 1, full, 18.7}, {"qwen2-0.5b", 8, none, 58.9}}) {
    const std::int64_t predicted =
        peak_of_adapters(cell.shape, Implementation::transformers, cell.batch, false, 0, cell.recomputation);
    EXPECT_LE(std::abs(relative_error(predicted, static_cast<std::int64_t>(cell.gibibytes * 0x1p30))), bound)
        << predicted << " " << cell.gibibytes;
  }
}

// scripts/gpu_packed_check.py --parts training. Rows from before there was a kernel that leaves out inputs do not count:
// several tensors stood in its place.
TEST(MeasuredMemory, OwnAdaptersAreWithinFivePercent) {
  const std::map<std::string, std::string> models{{"qwen2.5-0.5b", "qwen2-0.5b"}, {"qwen2.5-7b", "qwen2-7b"}};
  for (const Json& row : rows_of("adapters_h200.jsonl")) {
    if (row.at("part") != "training" || row.at("commit").get<std::string>().find("before") != std::string::npos) continue;
    const std::int64_t predicted =
        peak_of_adapters(models.at(row.at("shape")), Implementation::muster, row.at("batch"), row.at("form") == "QLoRA",
                         0.05, spec::Recomputation::none);
    EXPECT_LE(std::abs(relative_error(predicted, row.at("peak"))), bound) << predicted << " " << row.dump();
  }
}

TEST(MeasuredMemory, ParametersAreThoseThatTorchCounted) {
  for (const char* file : {"memory_h200.jsonl", "memory_h200_inference.jsonl", "memory_h200_held_out.jsonl"})
    for (const Json& row : rows_of(file)) {
      const spec::ModelShape shape =
          spec::build_shape(measured_models().at(row.at("model")), spec::ElementType::bfloat16);
      EXPECT_EQ(shape.parameter_count(), row.at("parameters").get<std::int64_t>()) << row.dump();
    }
}

// The first step has no optimizer states yet while its passes run; the peak that counts is that of every later step.
TEST(MeasuredMemory, ThePredictedPeakIsThatOfSteadySteps) {
  int told_apart = 0;
  for (const char* file : {"memory_h200.jsonl", "memory_h200_held_out.jsonl"})
    for (const Json& row : rows_of(file)) {
      if (row.at("work") != "train") continue;
      const std::int64_t steady = row.at("peak"), first = row.at("first"), predicted = predicted_peak(row);
      const Json& phases = row.at("phases");
      EXPECT_EQ(steady, std::max({phases.at("forward").get<std::int64_t>(), phases.at("backward").get<std::int64_t>(),
                                  phases.at("step").get<std::int64_t>()}));
      if (static_cast<double>(first) > static_cast<double>(steady) * (1 - bound)) continue;
      ++told_apart;
      EXPECT_LT(std::abs(predicted - steady), std::abs(predicted - first)) << row.dump();
    }
  EXPECT_GE(told_apart, 50);
}

TEST(MeasuredMemory, ALargerBatchIsPredictedToAddWhatWasMeasured) {
  // Pairs of cells that differ in the batch alone: the predicted growth is the measured one, within what both peaks may
  // be off.
  std::map<std::string, std::vector<Json>> alike;
  for (const Json& row : rows_of("memory_h200_inference.jsonl")) {
    if (row.at("sequence") != 256) continue;
    alike[fmt::format("{} {}", row.at("model").get<std::string>(), row.at("dtype").get<std::string>())].push_back(row);
  }
  int pairs = 0;
  for (const auto& [name, rows] : alike) {
    if (rows.size() < 2) continue;
    const auto [small, large] =
        std::ranges::minmax(rows, {}, [](const Json& row) { return row.at("batch").get<int>(); });
    if (small.at("batch") == large.at("batch")) continue;
    ++pairs;
    const std::int64_t grown = predicted_peak(large) - predicted_peak(small);
    const std::int64_t measured = large.at("peak").get<std::int64_t>() - small.at("peak").get<std::int64_t>();
    EXPECT_LE(std::abs(relative_error(grown, measured)), 2 * bound) << name << " " << grown << " " << measured;
  }
  EXPECT_GE(pairs, 5);
}

}  // namespace
}  // namespace muster::plan

#include "plan/split_units.hpp"

#include <gtest/gtest.h>

#include "sample_models.hpp"

namespace muster::plan {
namespace {

std::vector<std::string> paths(const SplitUnits& units) {
  std::vector<std::string> found;
  for (const Unit& unit : units.units) found.push_back(unit.path);
  return found;
}

std::vector<std::int64_t> bytes(const SplitUnits& units) {
  std::vector<std::int64_t> found;
  for (const Unit& unit : units.units) found.push_back(unit.bytes);
  return found;
}

const std::vector<SplitDevice> three_gpus{{on_gpu(0), 100, 0}, {on_gpu(1), 100, 0}, {on_gpu(2), 100, 0}};

TEST(SplitUnits, AreEmbeddingBlocksNormAndHeadWithTheRotaryBuffersInTheFirstBlock) {
  const auto shape = small_llama(3, 20, false);
  const auto units = split_units(shape, bytes_per_tensor(shape));
  EXPECT_EQ(paths(units), (std::vector<std::string>{"model.embed_tokens", "model.layers.0", "model.layers.1",
                                                    "model.layers.2", "model.norm", "lm_head"}));
  EXPECT_EQ(bytes(units), (std::vector<std::int64_t>{20, 12, 10, 10, 3, 20}));
  EXPECT_TRUE(units.shared.empty());
  using enum UnitRole;
  EXPECT_EQ(units.roles, (std::vector{before_blocks, block, block, block, after_blocks, after_blocks}));
}

TEST(SplitUnits, CountATiedHeadOnceAndTellWhatItShares) {
  const auto shape = small_llama(2, 20, true);
  const auto units = split_units(shape, bytes_per_tensor(shape));
  EXPECT_EQ(bytes(units), (std::vector<std::int64_t>{20, 12, 10, 3, 0}));
  ASSERT_EQ(units.shared.size(), 1U);
  EXPECT_EQ(units.shared[0].first, 0U);
  EXPECT_EQ(units.shared[0].second, 4U);
  EXPECT_EQ(units.shared[0].bytes, 20);
}

TEST(SplitUnits, ChainUnitsThatShareOneTensor) {
  spec::ShapeBuilder builder;
  builder.open("", "Net");
  spec::TensorId first{};
  for (const char* name : {"a", "b", "c"}) {
    builder.open(name, "Linear");
    if (*name == 'a')
      first = builder.add("weight", {5});
    else
      builder.tie("weight", first);
    builder.close();
  }
  builder.close();
  const auto shape = builder.finish({});
  const auto units = split_units(shape, bytes_per_tensor(shape));
  EXPECT_EQ(bytes(units), (std::vector<std::int64_t>{20, 0, 0}));
  ASSERT_EQ(units.shared.size(), 2U);
  EXPECT_EQ(units.shared[1].first, 1U);
  EXPECT_EQ(units.shared[1].second, 2U);
  const SplitRequest request{.units = units.units, .shared = units.shared, .devices = three_gpus};
  EXPECT_EQ(assess_split(request, {0, 1, 1}).used, (std::vector<std::int64_t>{20, 20, 0}));
  EXPECT_EQ(assess_split(request, {0, 1, 2}).used, (std::vector<std::int64_t>{20, 20, 20}));
  EXPECT_TRUE(split_layers(request));
}

TEST(SplitUnits, CoverParametersAndBuffersThatLieBesideChildren) {
  spec::ShapeBuilder builder;
  builder.open("", "Net");
  builder.add("scale", {4});
  builder.add("steps", {2}, spec::TensorKind::buffer);
  builder.open("body", "Body");
  builder.add("mask", {3}, spec::TensorKind::derived);
  builder.open("0", "Block");
  builder.add("weight", {5});
  builder.close();
  builder.open("activation", "GELU");
  builder.close();
  builder.close();
  builder.close();
  const auto shape = builder.finish({"Block"});
  const auto units = split_units(shape, bytes_per_tensor(shape));
  EXPECT_EQ(paths(units), (std::vector<std::string>{"scale", "body.0"}));
  EXPECT_EQ(bytes(units), (std::vector<std::int64_t>{16, 20 + 8 + 12}));
  const SplitRequest request{.units = units.units, .shared = units.shared, .devices = three_gpus};
  const DeviceMap map = to_device_map(shape, units, assess_split(request, {0, 1}), request.devices);
  for (const char* tensor : {"steps", "body.mask", "body.0.weight"}) EXPECT_EQ(map.find(tensor), on_gpu(1)) << tensor;
  EXPECT_EQ(map.find("scale"), on_gpu(0));
}

TEST(SplitUnits, BecomeADeviceMapThatCoversEveryTensorAndRangesOfLayers) {
  const auto shape = small_llama(6, 20, true);
  const auto units = split_units(shape, bytes_per_tensor(shape));
  const SplitRequest request{.units = units.units, .shared = units.shared, .devices = three_gpus};
  const auto split = split_layers(request);
  ASSERT_TRUE(split);
  const DeviceMap map = to_device_map(shape, units, *split, request.devices);
  for (std::size_t i = 0; i < shape.tensors.size(); ++i)
    EXPECT_TRUE(map.find(shape.path(static_cast<spec::TensorId>(i)))) << shape.path(static_cast<spec::TensorId>(i));
  EXPECT_EQ(map.find("model.rotary_emb.inv_freq"), map.find("model.layers.0.mlp.weight"));

  const auto ranges = layer_ranges(units, *split, request.devices);
  ASSERT_EQ(ranges.size(), 3U);
  EXPECT_TRUE(ranges[0].has_embedding && !ranges[0].has_head);
  EXPECT_TRUE(!ranges[2].has_embedding && ranges[2].has_head);
  EXPECT_EQ(ranges[0].first_block, 0U);
  EXPECT_EQ(ranges[0].end_block, ranges[1].first_block);
  EXPECT_EQ(ranges[1].end_block, ranges[2].first_block);
  EXPECT_EQ(ranges[2].end_block, 6U);
  for (std::size_t device = 0; device < ranges.size(); ++device)
    for (std::size_t block = ranges[device].first_block; block < ranges[device].end_block; ++block)
      EXPECT_EQ(map.find(fmt::format("model.layers.{}", block)), ranges[device].place);
}

TEST(SplitUnits, OnOneDeviceAreOneEntry) {
  const auto shape = small_llama(2, 20, true);
  const auto units = split_units(shape, bytes_per_tensor(shape));
  const SplitRequest request{.units = units.units, .shared = units.shared, .devices = {three_gpus[0]}};
  const auto split = split_layers(request);
  ASSERT_TRUE(split);
  EXPECT_EQ(to_device_map(shape, units, *split, request.devices), (DeviceMap{{{"", on_gpu(0)}}}));
  EXPECT_EQ(layer_ranges(units, *split, request.devices), (std::vector{LayerRange{on_gpu(0), 0, 2, true, true}}));
}

}  // namespace
}  // namespace muster::plan

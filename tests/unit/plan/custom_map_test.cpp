#include <gtest/gtest.h>

#include "plan/device_map.hpp"
#include "sample_models.hpp"

namespace muster::plan {
namespace {

using Written = std::vector<std::pair<std::string, std::string>>;

const std::vector<Budget> two_gpus_and_cpu{
    {on_gpu(0), gibibytes(1)}, {on_gpu(1), gibibytes(1)}, {on_cpu(), gibibytes(1)}};

Result<DeviceMap> read(const Written& written) {
  return custom_map(small_llama(3, 20, true), written, two_gpus_and_cpu);
}

std::string failure(const Written& written) {
  const auto map = read(written);
  if (map) return "";
  EXPECT_EQ(map.error().kind, Error::Kind::bad_input);
  return map.error().what;
}

TEST(CustomMap, TakesNumbersCudaNamesCpuAndTensors) {
  const auto map = read({{"model.embed_tokens", "0"},
                         {"model.layers.0", "cuda:0"},
                         {"model.layers.1", "cuda:1"},
                         {"model.layers.2.mlp", "1"},
                         {"model.layers.2.norm.weight", "cpu"},
                         {"model.norm", "1"},
                         {"model.rotary_emb", "0"},
                         {"lm_head", "1"}});
  ASSERT_TRUE(map) << map.error().what;
  EXPECT_EQ(map->entries.front(), (std::pair<std::string, Place>("model.embed_tokens", on_gpu(0))));
  EXPECT_EQ(map->entries[2].second, on_gpu(1));
  EXPECT_EQ(map->find("model.layers.2.norm.weight"), on_cpu());
  EXPECT_EQ(map->entries.size(), 8U);
}

TEST(CustomMap, TakesOnePlaceForTheWholeModel) {
  const auto map = read({{"", "1"}});
  ASSERT_TRUE(map);
  EXPECT_EQ(map->find("model.layers.2.mlp.weight"), on_gpu(1));
}

TEST(CustomMap, NamesModulesThatAreNotThereAndWhatWasMeant) {
  EXPECT_EQ(failure({{"", "0"}, {"model.layer.0", "0"}}),
            "model.layer.0: the model has no such module or tensor; did you mean model.layers?");
  for (const char* key : {"model.layers.7", "model.", ".", "model..norm", "lm_head.weight.x", "x"})
    EXPECT_EQ(failure({{"", "0"}, {key, "0"}}).find(fmt::format("{}: the model has no such module or tensor", key)), 0U)
        << key;
}

TEST(CustomMap, NamesPlacesThatAreNotThere) {
  EXPECT_EQ(failure({{"model", "2"}, {"lm_head", "cuda"}}),
            "model: there is no place 2; there are 0, 1, cpu\n"
            "lm_head: \"cuda\" is not a place; write a GPU's number, cuda:N, cpu or disk");
  for (const char* place : {"disk", "-1", "cuda:-1", "cuda:+1", "gpu", "", "99999999999"})
    EXPECT_NE(failure({{"", place}}).find("place"), std::string::npos) << place;
}

TEST(CustomMap, NamesTheHighestModulesThatAreLeftOut) {
  EXPECT_EQ(failure({{"model.layers.0", "0"}, {"model.layers.1.mlp", "0"}, {"lm_head", "1"}}),
            "model.embed_tokens: has no place; add it to the map\n"
            "model.layers.1.norm: has no place; add it to the map\n"
            "model.layers.2: has no place; add it to the map\n"
            "model.norm: has no place; add it to the map\n"
            "model.rotary_emb: has no place; add it to the map");
  EXPECT_EQ(failure({}), "the whole model (\"\"): has no place; add it to the map");
}

TEST(CustomMap, NamesModulesThatAreCoveredTwice) {
  EXPECT_EQ(failure({{"model", "0"}, {"model.layers.1", "1"}, {"lm_head", "0"}}),
            "model.layers.1: lies in model, which has a place already; write either the module or its parts");
  EXPECT_EQ(failure({{"", "0"}, {"", "1"}}), "the whole model (\"\"): is written twice; write it once");
}

}  // namespace
}  // namespace muster::plan

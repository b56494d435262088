#include "plan/device_map.hpp"

#include <gtest/gtest.h>

namespace muster::plan {
namespace {

TEST(DeviceMap, FindsTheEntryThatHoldsAModuleOrTensor) {
  const DeviceMap map{{{"model.layers.1", on_gpu(0)}, {"model.layers.10", on_gpu(1)}, {"lm_head", on_cpu()}}};
  EXPECT_EQ(map.find("model.layers.1.mlp.weight"), on_gpu(0));
  EXPECT_EQ(map.find("model.layers.10"), on_gpu(1));
  EXPECT_EQ(map.find("lm_head.weight"), on_cpu());
  EXPECT_EQ(map.find("model.layers"), std::nullopt);
  EXPECT_EQ((DeviceMap{{{"", on_gpu(3)}}}.find("anything.at.all")), on_gpu(3));
}

}  // namespace
}  // namespace muster::plan

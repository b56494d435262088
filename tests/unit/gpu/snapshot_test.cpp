#include "gpu/snapshot.hpp"

#include <gtest/gtest.h>

namespace muster::gpu {
namespace {

TEST(Links, AreFoundInEitherOrder) {
  const std::vector<Link> links{{GpuIndex{0}, GpuIndex{1}, LinkKind::nvlink, 12},
                                {GpuIndex{0}, GpuIndex{2}, LinkKind::sys, 0}};
  EXPECT_EQ(find_link(links, GpuIndex{1}, GpuIndex{0}), links[0]);
  EXPECT_EQ(find_link(links, GpuIndex{0}, GpuIndex{2}), links[1]);
  EXPECT_EQ(find_link(links, GpuIndex{1}, GpuIndex{2}), std::nullopt);
}

TEST(Links, AreNamedAsNvidiaSmiNamesThem) {
  const auto name = [](LinkKind kind, int lanes) { return to_string(Link{GpuIndex{0}, GpuIndex{1}, kind, lanes}); };
  EXPECT_EQ(name(LinkKind::nvlink, 18), "NV18");
  EXPECT_EQ(name(LinkKind::nvlink, 0), "NV");
  EXPECT_EQ(name(LinkKind::pix, 0), "PIX");
  EXPECT_EQ(name(LinkKind::pxb, 0), "PXB");
  EXPECT_EQ(name(LinkKind::phb, 0), "PHB");
  EXPECT_EQ(name(LinkKind::node, 0), "NODE");
  EXPECT_EQ(name(LinkKind::sys, 0), "SYS");
}

}  // namespace
}  // namespace muster::gpu

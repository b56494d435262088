#include "gpu/health.hpp"

#include <gtest/gtest.h>

namespace muster::gpu {
namespace {

TEST(Health, FindsNothingWrongWithAGpuThatReportsNothing) { EXPECT_EQ(sickness(Gpu{}), std::nullopt); }

TEST(Health, ForgivesErrorsThatApplicationsCause) {
  Gpu gpu;
  gpu.reading.recent_xids = {13, 31, 43, 45, 68, 94, 109};
  gpu.reading.ecc_corrected = 1000;
  gpu.reading.ecc_uncorrected = 0;
  gpu.reading.row_remap_failed = false;
  gpu.reading.row_remap_pending = false;
  EXPECT_EQ(sickness(gpu), std::nullopt);
}

TEST(Health, NamesEveryXidOfTheHardwareOnce) {
  Gpu gpu;
  gpu.reading.recent_xids = {79, 31, 79, 48};
  EXPECT_EQ(
      sickness(gpu),
      "Xid 79 in the kernel log: the GPU fell off the bus; Xid 48 in the kernel log: an uncorrectable memory error");
}

TEST(Health, FailsClosedOnAnXidThatIsNotKnown) {
  Gpu gpu;
  gpu.reading.recent_xids = {9999};
  EXPECT_EQ(sickness(gpu), "Xid 9999 in the kernel log: not an error that an application causes");
}

TEST(Health, CountsUncorrectedMemoryErrors) {
  Gpu gpu;
  gpu.reading.ecc_uncorrected = 2;
  EXPECT_EQ(sickness(gpu), "2 uncorrected memory errors since the driver was loaded");
  gpu.reading.ecc_uncorrected = 1;
  EXPECT_EQ(sickness(gpu), "1 uncorrected memory error since the driver was loaded");
}

TEST(Health, NamesFailedAndPendingRowRemaps) {
  Gpu gpu;
  gpu.reading.row_remap_failed = true;
  EXPECT_EQ(sickness(gpu), "row remap failed");
  gpu.reading.row_remap_failed = false;
  gpu.reading.row_remap_pending = true;
  EXPECT_EQ(sickness(gpu), "row remap pending: it takes effect at the next reset");
}

TEST(Health, CallsALostGpuLost) {
  Gpu gpu;
  gpu.lost = true;
  EXPECT_EQ(sickness(gpu), "lost: the driver cannot reach it");
}

TEST(Health, BelievesADeclarationAndAddsWhatTheFactsSay) {
  Gpu gpu;
  gpu.declared_unhealthy = "declared unhealthy in rack.yaml";
  EXPECT_EQ(sickness(gpu), "declared unhealthy in rack.yaml");
  gpu.reading.row_remap_failed = true;
  EXPECT_EQ(sickness(gpu), "declared unhealthy in rack.yaml; row remap failed");
}

TEST(Health, SaysOnceWhatADeclarationTookFromTheFacts) {
  Gpu gpu;
  gpu.lost = true;
  gpu.reading.recent_xids = {79};
  gpu.declared_unhealthy = "declared unhealthy in rack.yaml";
  gpu.declared_unhealthy = sickness(gpu);
  EXPECT_EQ(
      sickness(gpu),
      "declared unhealthy in rack.yaml; lost: the driver cannot reach it; Xid 79 in the kernel log: the GPU fell off "
      "the bus");
}

}  // namespace
}  // namespace muster::gpu

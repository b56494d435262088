#include "train/exact_loss.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace muster::train {
namespace {

TEST(ExactLoss, IsTheSameHoweverTokensAreLaidOverPasses) {
  const at::Tensor losses = at::rand({1000}, at::kFloat) * 12;
  const LossSum whole = loss_of(exact_sum(losses));
  at::Tensor parts = at::zeros({loss_parts}, at::kLong);
  for (const at::Tensor& piece : losses.split(7)) parts += exact_sum(piece.flip(0));
  EXPECT_EQ(loss_of(parts).value, whole.value);
  EXPECT_NEAR(whole.value, losses.to(at::kDouble).sum().item<double>(), 1e-9);
}

TEST(ExactLoss, HoldsTheLossOfMoreTokensThanOneWholeNumberCould) {
  at::Tensor parts = at::zeros({loss_parts}, at::kLong);
  const at::Tensor pass = exact_sum(at::full({1 << 16}, 11.5F));
  for (int i = 0; i < 64; ++i) parts += pass;
  EXPECT_EQ(loss_of(parts).value, 11.5 * (1 << 22));
  EXPECT_EQ(loss_of(parts).mean(1 << 22), 11.5);
}

TEST(ExactLoss, CountsWhatIsNoNumber) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const LossSum sum = loss_of(exact_sum(at::tensor({1.0F, nan, inf, 2.0F, 1e30F})));
  EXPECT_EQ(sum.bad, 3);
  EXPECT_EQ(sum.value, 3.0);
  EXPECT_EQ(loss_of(exact_sum(at::full({64}, nan))).bad, 64);
}

}  // namespace
}  // namespace muster::train

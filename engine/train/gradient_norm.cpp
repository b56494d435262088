#include "train/gradient_norm.hpp"

#include <bit>

#include "tensor/exact_squares.hpp"

namespace muster::train {

double squared_norm(parallel::Strategy& strategy, tensor::TrainingOps& training) {
  at::Tensor own;
  const auto add = [&own](const at::Tensor& more) { own = own.defined() ? own + more : more; };
  for (const parallel::Shard& shard : strategy.shards()) {
    if (shard.master.numel() == 0) continue;
    if (shard.gradient.exact())
      add(tensor::exact_squares(training.square_blocks(shard.gradient)));
    else
      add(training.squared_sum(shard.gradient));
  }
  if (own.scalar_type() == at::kLong) return tensor::square_value(strategy.of_all_parts(own).sum(0));
  const at::Tensor parts = strategy.of_all_parts(own.view(at::kLong)).cpu();
  double sum = 0;
  for (std::int64_t part = 0; part < parts.size(0); ++part)
    sum += std::bit_cast<double>(parts[part].item<std::int64_t>());
  return sum;
}

}  // namespace muster::train

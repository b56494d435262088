// The trained rows of each sequence of a pass.
#pragma once

#include <cstdint>
#include <vector>

#include "data/micro_batch.hpp"
#include "tensor/torch.hpp"

namespace muster::train {

// The rows of one sequence, by their numbers among the trained rows of the pass.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t before = 0;  // rows of the sequence before the first of them
};
std::vector<RowRange> ranges_of(const data::MicroBatch& batch);

// In double and in the order of the rows: a sum follows from these numbers alone. numbers: [trained rows] on the host.
double sum_of(const at::Tensor& numbers, const RowRange& range);
// For each sequence that of its trained rows' log-probabilities.
std::vector<double> sums_of_sequences(const data::MicroBatch& batch, const at::Tensor& log_probabilities);

// Adds a weight to each row of the range; weights: float32 [trained rows] on the host.
void add_weight(const at::Tensor& weights, const RowRange& range, double weight);

}  // namespace muster::train

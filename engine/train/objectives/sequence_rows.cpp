#include "train/objectives/sequence_rows.hpp"

namespace muster::train {

std::vector<RowRange> ranges_of(const data::MicroBatch& batch) {
  std::vector<RowRange> ranges;
  std::int64_t next = 0, begin = 0;
  const auto trained = std::ssize(batch.trained_rows);
  const auto row = [&] { return batch.trained_rows[static_cast<std::size_t>(next)]; };
  for (const std::int64_t rows : batch.parts) {
    RowRange range{next, 0, next < trained ? row() - begin : 0};
    begin += rows;
    while (next < trained && row() < begin) ++next;
    range.count = next - range.first;
    ranges.push_back(range);
  }
  return ranges;
}

double sum_of(const at::Tensor& numbers, const RowRange& range) {
  const auto* number = numbers.const_data_ptr<float>() + range.first;
  double sum = 0;
  for (std::int64_t i = 0; i < range.count; ++i) sum += static_cast<double>(number[i]);
  return sum;
}

std::vector<double> sums_of_sequences(const data::MicroBatch& batch, const at::Tensor& log_probabilities) {
  const at::Tensor host = log_probabilities.cpu();
  std::vector<double> sums;
  for (const RowRange& range : ranges_of(batch)) sums.push_back(sum_of(host, range));
  return sums;
}

void add_weight(const at::Tensor& weights, const RowRange& range, double weight) {
  auto* number = weights.mutable_data_ptr<float>() + range.first;
  for (std::int64_t i = 0; i < range.count; ++i) number[i] = static_cast<float>(static_cast<double>(number[i]) + weight);
}

}  // namespace muster::train

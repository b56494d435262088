#include "data/micro_batch.hpp"

namespace muster::data {

MicroBatch make_micro_batch(const Dataset& dataset, std::span<const Unit> units) {
  MicroBatch batch;
  for (const Unit& unit : units)
    for (const std::uint32_t number : unit) {
      const SampleView sample = dataset.sample(number);
      if (sample.tokens.size() < 2) continue;  // no row: nothing is predicted
      const std::int64_t first = batch.rows();
      const auto read = sample.tokens.first(sample.tokens.size() - 1);
      batch.tokens.insert(batch.tokens.end(), read.begin(), read.end());
      batch.parts.push_back(static_cast<std::int64_t>(read.size()));
      batch.samples.push_back(number);
      batch.labels.push_back(sample.label);
      for (const TokenSpan& span : sample.trained)
        for (std::uint32_t token = span.begin; token < span.end; ++token) {
          if (span.speaker == Speaker::others) batch.replies.push_back(std::ssize(batch.trained_rows));
          batch.trained_rows.push_back(first + token - 1);
          batch.targets.push_back(sample.tokens[token]);
        }
    }
  return batch;
}

}  // namespace muster::data

// The numbers of one pass: rows of several samples one after another, no padding anywhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/batch_schedule.hpp"
#include "data/dataset.hpp"

namespace muster::data {

// A sample of n tokens has n-1 rows: row i reads token i and predicts token i+1.
struct MicroBatch {
  std::vector<std::int64_t> tokens;        // one a row
  std::vector<std::int64_t> parts;         // rows of each sample: each has positions from 0 and sees itself alone
  std::vector<std::int64_t> samples;       // their numbers in the data
  std::vector<std::int64_t> labels;        // theirs (Sample::label)
  std::vector<std::int64_t> trained_rows;  // ascending: the rows whose next token is trained on
  std::vector<std::int64_t> targets;       // that token, one for each of trained_rows
  std::vector<std::int64_t> replies;       // ascending: which of trained_rows predict what others say to an answer
  // For answers that the model sampled; otherwise empty.
  std::vector<double> advantages;          // one for each of parts
  std::vector<std::int64_t> copies;        // answers that each of parts stands for: they are all the same
  std::vector<float> sampled;              // log-probabilities that targets were drawn by
  std::vector<float> reference;            // and those of the reference, where there is one
  // For each target of these answers, where what they are going to earn is learnt, too.
  std::vector<double> token_advantages;
  std::vector<double> returns;             // what they did earn from it on
  std::vector<float> values;               // what was expected when it was drawn
  bool without_adapters = false;           // computed as if the model had none

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
  bool operator==(const MicroBatch&) const = default;
};

MicroBatch make_micro_batch(const Dataset& dataset, std::span<const Unit> units);

}  // namespace muster::data

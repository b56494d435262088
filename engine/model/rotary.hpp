// The rotary position embedding: cosines and sines of each row's angles.
#pragma once

#include <map>
#include <vector>

#include "model/batch.hpp"
#include "spec/model/rope.hpp"
#include "tensor/torch.hpp"

namespace muster::model {

struct RotaryFrequencies {
  std::vector<float> inverse;  // radians per position, one for each pair of a head's elements
  double attention_factor = 1;
};
// As transformers computes them, to the last bit. length: of the sequence; positions: what the model was made for.
RotaryFrequencies rotary_frequencies(const spec::Rope& rope, std::int64_t head_size, std::int64_t positions,
                                     std::int64_t length);

struct RotaryRows {
  at::Tensor cosines;  // [rows, head_size / 2], float32
  at::Tensor sines;
};

class RotaryTable {
 public:
  RotaryTable(spec::Rope rope, std::int64_t head_size, std::int64_t positions, at::Device device);

  // positions: the batch's, [rows], on the device.
  RotaryRows rows(const Batch& batch, const at::Tensor& positions);
  // The same where angles depend on positions alone and reserve() has been called.
  RotaryRows rows(const at::Tensor& positions);
  // Whether angles depend on positions alone. Then the table holds all up to this one, and stays where it is.
  bool reserve(std::int64_t positions);

 private:
  struct Table {
    RotaryFrequencies frequencies;
    std::int64_t positions = 0;
    at::Tensor cosines;  // [positions, head_size / 2]
    at::Tensor sines;
  };
  // Which of the tables a sequence of this length reads: they differ only where the frequencies depend on the length.
  std::int64_t table_key(std::int64_t length) const;
  Table& table_for(std::int64_t length, std::int64_t positions);

  spec::Rope rope_;
  std::int64_t head_size_;
  std::int64_t model_positions_;
  at::Device device_;
  std::map<std::int64_t, Table> tables_;
};

}  // namespace muster::model

// What a file of bitsandbytes has for a weight in 8 or 4 bits: several tensors, one of which is JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_writer.hpp"
#include "spec/weight_packing.hpp"

namespace muster::convert {

// A matrix with a row for each output, also where the model has one for each input (GPT-2's).
struct CodedWeight {
  std::string name;  // "model.layers.0.mlp.up_proj.weight"
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool transposed = false;  // the model has a row for each column
  spec::WeightPacking packing;
  spec::ElementType coded_from = spec::ElementType::float32;  // the type of the numbers before

  std::int64_t elements() const { return rows * columns; }
  std::int64_t runs() const;
  // part("SCB"): "model.layers.0.mlp.up_proj.SCB"
  std::string part(std::string_view word) const;
};

// In this order: the codes, what their scales are, and what the numbers mean.
std::vector<checkpoint::TensorDeclaration> parts_of(const CodedWeight& weight);

// The JSON of a weight in 4 bits, and its tensor's name. offset: the mean of scales that are quantised themselves, not known
// until all of them are. So the text ends with blanks, and has the same length whatever it is.
std::string state_text(const CodedWeight& weight, float offset);
std::string state_name(const CodedWeight& weight);

}  // namespace muster::convert

// Where a quantised checkpoint holds the tensors of a model: as they are, or as codes with what belongs to them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/model/quantized/checkpoint_quantization.hpp"
#include "spec/model/model_shape.hpp"
#include "spec/model/safetensors_header.hpp"

namespace muster::spec {

// A tensor under the model's name, and under that of the files.
struct PlainTensor {
  std::string name;
  std::string stored_name;
};

// A matrix that is held as codes.
struct QuantizedMatrix {
  std::string name;               // of the model's tensor: "model.layers.0.mlp.up_proj.weight"
  std::string stem;               // its parts are this and a word: "model.layers.0.mlp.up_proj." and "qweight"
  std::int64_t rows = 0;          // as it was quantised: outputs
  std::int64_t columns = 0;       // and inputs
  bool transposed = false;        // the model's tensor has a row for each input: GPT-2's
  std::int64_t run_rows = 1;       // a scale is shared by so many of its rows
  std::int64_t run_columns = 1;    // and columns; not of bitsandbytes
  std::uint64_t stored_bytes = 0;  // of all its parts
  std::optional<WeightPacking> packing;  // of codes that are computed with as they are: bitsandbytes'

  std::string part(std::string_view word) const { return stem + std::string(word); }
};

struct QuantizedTensors {
  std::vector<PlainTensor> plain;
  std::vector<QuantizedMatrix> matrices;
  std::vector<std::string> extra;  // what the files hold besides
};

// Every matrix that the files do not hold as it is must be there as codes of this method, with all its parts, each of the
// type and sizes that the model's shape asks for. Refused, with names, types and sizes: the first few that are not.
Result<QuantizedTensors> find_quantized_tensors(const ModelShape& shape, const CheckpointQuantization& quantization,
                                                const std::vector<CheckpointFile>& files);

}  // namespace muster::spec

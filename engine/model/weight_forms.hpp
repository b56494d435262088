// In which forms a model has its weights, beyond plain matrices: packed and narrow ones, and low-rank adapters beside
// them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "checkpoint/tensor_source.hpp"
#include "spec/adapter_options.hpp"
#include "spec/model/model_shape.hpp"
#include "spec/model/quantized/packed_modules.hpp"
#include "spec/weight_options.hpp"
#include "tensor/torch.hpp"

namespace muster::model {

// Beside a linear layer: scale · B·(A·x) is added to what it gives. A is [rank, inputs], B is [outputs, rank].
struct AdapterForm {
  std::int64_t rank = 0;
  double scale = 1;
  bool decomposed = false;  // DoRA: outputs are scaled by a magnitude each
};
using AdapterForms = std::map<std::string, AdapterForm, std::less<>>;

// Both by the names that the model's shape has for the weights: "model.layers.0.mlp.down_proj.weight".
struct WeightForms {
  std::vector<AdapterForms> adapters;  // each one's; where there are any, nothing is trained beside them but
  std::set<std::string, std::less<>> saved;  // what an adapter's file has as a whole: plain, and not the base's
  spec::PackedByName packed;
  // Weights that a checkpoint has in 16 bits, and that may stay so where they are computed with in float32.
  std::map<std::string, at::ScalarType, std::less<>> narrow;
};

// How a model's weights are held that are read from this source. options: absent: as it has them, which is packed where
// it has codes. Refused: layers that are read as one, of which some are skipped.
Result<WeightForms> forms_of_weights(const spec::ModelShape& shape, const checkpoint::TensorSource& source,
                                     const std::optional<spec::WeightOptions>& options);

// With one more adapter. Refused: options that choose no module, or one that is no linear layer.
Result<void> add_adapter(WeightForms& forms, const spec::ModelShape& shape, const spec::AdapterOptions& options);

// What the tensors of a weight's adapter are called: "model.layers.0.mlp.down_proj.lora_A.weight" of the first one, others
// by checkpoint::adapted_name.
struct AdapterNames {
  std::string down;       // A
  std::string up;         // B
  std::string magnitude;  // of DoRA
};
AdapterNames adapter_names(const std::string& weight, std::size_t number);

}  // namespace muster::model

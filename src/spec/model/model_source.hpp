// From the user's name for a model to its shape: a folder, a config.json, a checkpoint file, a name in the store or the
// local Hugging Face cache, or only a size.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/adapter_options.hpp"
#include "spec/model/model_config.hpp"
#include "spec/model/model_search.hpp"
#include "spec/model/model_shape.hpp"
#include "spec/model/quantized/packed_modules.hpp"

namespace muster::spec {

struct ModelDescription {
  std::string name;  // as the user wrote it, for messages
  ModelConfig config;
  ModelShape shape;
  ElementType dtype = ElementType::float32;      // of the checkpoint; float32 if no file says
  std::optional<std::int64_t> checkpoint_bytes;  // size of the files' tensors, if there are files
  bool typical = false;                          // derived from a size alone
  std::optional<ScoreHead> fresh_head;           // that its files do not have
  // Weights that the files have in codes which are computed with as they are, by name. Full training dequantises them.
  PackedByName codes;
  std::vector<std::string> notes;                // what the user should know
};

// Each is refused with where it was looked for. If there are checkpoint files next to the config, their headers must
// have the tensors the config asks for; differences are named. Without a config.json it is inferred from the tensors
// if they are unambiguous, and a note says what was assumed. Checkpoints quantised by a method that is not read are
// refused by its name. dtype: the type to hold the weights in; absent: the checkpoint's, of a quantised one its
// configuration's.
Result<ModelDescription> read_model(const std::string& model, const ModelSearch& search,
                                    std::optional<ElementType> dtype);

// As adapters with these options see the model: where a tied tensor is trained as a whole, nothing is tied.
ModelDescription beside_adapters(ModelDescription model, const AdapterOptions& options);

// The same model with this head, which its files do not have (model::with_fresh_head), beside the one that predicts tokens
// or instead of it.
ModelDescription with_score_head(ModelDescription model, const ScoreHead& head);

// A model of exactly this many parameters: typical_config's, and what it is short of as one 1-D parameter
// "model.remainder". From smallest_typical to largest_typical.
Result<ModelDescription> model_of_size(std::int64_t parameters, std::optional<ElementType> dtype);

}  // namespace muster::spec

// A model as a Hugging Face folder: its weights in another type, or in 8 or 4 bits as bitsandbytes has them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_count.hpp"
#include "base/result.hpp"
#include "spec/element_type.hpp"
#include "spec/model/model_search.hpp"
#include "spec/weight_options.hpp"

namespace muster::convert {

struct ConversionRequest {
  std::string model;             // as the user calls it; it is only read
  std::filesystem::path folder;  // must not exist
  std::optional<spec::WeightOptions> form;  // of the linear layers' weights; absent: none is quantised
  std::optional<spec::ElementType> dtype;   // of what is not quantised; absent: the model's own, float16 for GGUF's blocks
  ByteCount shard_size = gibibytes(4);
  int threads = 1;
  std::function<void(ByteCount done, ByteCount total)> progress;  // of numbers read; may be empty
};

struct Conversion {
  spec::ElementType dtype = spec::ElementType::float32;
  std::int64_t parameters = 0;
  ByteCount bytes;  // of the tensors written
  std::size_t tensors = 0;
  std::size_t quantised = 0;             // weights
  std::vector<std::string> dequantised;  // what weights were in that had to be dequantised: "Q4_K", "nf4"; each once
};

// config.json, model.safetensors (or shards with their index), tokenizer, chat template, generation_config.json, as
// transformers loads them. The folder appears whole or not at all; a slice of one weight is held at a time, not the
// model. Refused: a model that has its weights in the form already, and a disk without room for the folder.
Result<Conversion> convert_model(const ConversionRequest& request, const spec::ModelSearch& search);

}  // namespace muster::convert

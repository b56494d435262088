// A GGUF file as a Hugging Face folder.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/byte_count.hpp"
#include "base/result.hpp"
#include "spec/element_type.hpp"

namespace muster::checkpoint {

struct ConversionRequest {
  std::filesystem::path file;
  std::filesystem::path folder;            // must not exist
  std::optional<spec::ElementType> dtype;  // absent: the file's own, float16 for blocks
  ByteCount shard_size = gibibytes(4);
  std::function<void(ByteCount done, ByteCount total)> progress;  // may be empty
};

struct Conversion {
  spec::ElementType dtype = spec::ElementType::float32;
  std::int64_t parameters = 0;
  ByteCount bytes;  // of the tensors written
  std::size_t tensors = 0;
};

// config.json, model.safetensors (or shards), tokenizer.json, tokenizer_config.json, chat_template.jinja where the file
// has one, and generation_config.json. The folder appears whole or not at all.
Result<Conversion> convert_gguf(const ConversionRequest& request);

}  // namespace muster::checkpoint

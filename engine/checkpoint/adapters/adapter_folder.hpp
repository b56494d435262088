// A low-rank adapter as PEFT keeps it: a folder with adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "base/byte_count.hpp"
#include "checkpoint/export_model.hpp"
#include "checkpoint/tensor_source.hpp"
#include "spec/model/adapters/adapted_modules.hpp"
#include "spec/model/adapters/adapter_config.hpp"

namespace muster::checkpoint {

// The folder is one that PEFT's save_pretrained wrote; any other is refused.
Result<spec::AdapterConfig> read_adapter_config(const std::filesystem::path& folder);

struct AdapterFolder {
  spec::AdapterConfig config;
  std::vector<spec::AdaptedModule> modules;  // with rank and scale of each
  std::vector<spec::TensorId> saved;         // parameters of the base that the adapter replaces as a whole
  // "model.layers.0.self_attn.q_proj.lora_A.weight" [rank, inputs], "….lora_B.weight" [outputs, rank] (of GPT-2 the
  // same), with DoRA "….lora_magnitude_vector" [outputs], and the saved parameters under their own names.
  std::unique_ptr<TensorSource> tensors;
};

// The base is the model that the adapter is for. Refused, with names and sizes: tensors that are missing, that have
// another shape than the base asks for, or that nothing asks for. A folder with adapter_model.bin alone is refused, too:
// it can run programs.
Result<AdapterFolder> open_adapter(const std::filesystem::path& folder, const spec::ModelShape& base);

// The head for scores that an adapter of a classifier has as a whole; absent: it is of another model.
Result<std::optional<spec::ScoreHead>> score_head_of(const std::filesystem::path& folder);

// What an adapter with these options has beside this base, under muster's names, in float32, in the order in which
// write_adapter asks for them.
Result<std::vector<TensorDeclaration>> tensors_of_adapter(const spec::ModelShape& base,
                                                          const spec::AdapterOptions& options);

struct AdapterExport {
  std::filesystem::path folder;
  bool replace = false;          // a folder of that name; without this, such a folder is refused
  std::vector<NamedText> texts;  // beside its own files: those of the tokenizer
  // Targets that are "all-linear", or none, are written as the names they stand for; whether weights are transposed is
  // taken from the base.
  spec::AdapterConfig config;
};

// A folder that PEFT and open_adapter load, in float32. pull is asked for every tensor that open_adapter gives, under
// muster's names. The folder appears whole or not at all. Returns the bytes of the tensors.
Result<ByteCount> write_adapter(const AdapterExport& request, const spec::ModelShape& base, const PullTensor& pull);
Result<ByteCount> write_adapter(const AdapterExport& request, const spec::ModelShape& base, const TensorSource& source);

}  // namespace muster::checkpoint

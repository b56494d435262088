// The text files of a Hugging Face folder: configuration, tokenizer, chat templates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/element_type.hpp"
#include "spec/model/gguf_header.hpp"
#include "spec/model/model_config.hpp"
#include "spec/model/model_config_writer.hpp"

namespace muster::checkpoint {

struct NamedText {
  std::string name;  // "config.json", "additional_chat_templates/tool_use.jinja"
  std::string text;
  bool operator==(const NamedText&) const = default;
};

// For a model that is exported with weights of this type. A folder's own files byte for byte, except for the type that
// its config.json names, and for a quantisation that it had; without a config.json, and for GGUF files, what muster writes in their place. path: a folder,
// a .safetensors file in one, or a .gguf file, as spec::find_model gives it.
Result<std::vector<NamedText>> texts_of_model(const std::filesystem::path& path, spec::ElementType type);

// For a model that does not come from files: config.json and generation_config.json, and these of its tokenizer.
Result<std::vector<NamedText>> texts_of_config(spec::ModelConfig config, const spec::TokenIds& tokens,
                                               spec::ElementType type, std::vector<NamedText> tokenizer);

// config.json as that of the classifier that the configuration is: transformers takes the class from there, the number of
// labels, and where a text ends that others are padded beside. padding: where the file names none.
Result<void> name_classifier(std::vector<NamedText>& texts, const spec::ModelConfig& config,
                             std::optional<std::int64_t> padding);

// For a GGUF file whose model this is. source names it in messages.
Result<std::vector<NamedText>> texts_of_gguf(const spec::GgufHeader& header, const spec::ModelConfig& config,
                                             const std::string& source);

}  // namespace muster::checkpoint

// A GGUF file's tokenizer in Hugging Face's files.
#pragma once

#include <string>
#include <string_view>

#include "spec/model/gguf_header.hpp"
#include "spec/model/model_config_writer.hpp"

namespace muster::checkpoint {

// tokenizer.json. Byte-level BPE ("gpt2") and SentencePiece's BPE with byte fallback ("llama", whose merges are
// recreated from the scores). Refused by name: other models, and pre-tokenizer words that are not known.
Result<std::string> gguf_tokenizer_json(const spec::GgufHeader& header, std::string_view source = "the GGUF file");

// tokenizer_config.json: the tokens with a special role, whether one is put in front, the chat template.
Result<std::string> gguf_tokenizer_config_json(const spec::GgufHeader& header,
                                               std::string_view source = "the GGUF file");

// The chat template; "" where the file has none.
Result<std::string> gguf_chat_template(const spec::GgufHeader& header, std::string_view source = "the GGUF file");

// Ids that config.json and generation_config.json name.
Result<spec::TokenIds> gguf_token_ids(const spec::GgufHeader& header, std::string_view source = "the GGUF file");

}  // namespace muster::checkpoint

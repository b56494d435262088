// What the names of pre-tokenizers in GGUF files stand for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::checkpoint {

// How a byte-level vocabulary's text is cut before merging, as parts of a tokenizer.json.
struct PreTokenizer {
  std::string_view normalizer;     // JSON
  std::string pre_tokenizer;       // JSON
  bool whole_words_first = false;  // a word that is a token is not built by merges (tokenizer.json: ignore_merges)
  bool begins_with_token = false;  // the begin token is put in front unless the file says otherwise
};

// For a value of tokenizer.ggml.pre; nothing for a name whose pattern is not known for sure.
std::optional<PreTokenizer> pre_tokenizer_named(std::string_view word);
std::vector<std::string> pre_tokenizer_words();

}  // namespace muster::checkpoint

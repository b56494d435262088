// A ModelText for tests, with or without a chat template.
#pragma once

#include <string>

#include "data/byte_tokenizer.hpp"

namespace muster::data {

inline chat::ModelText byte_text(const std::string& chat_template = {}) {
  auto files = byte_tokenizer_files();
  if (!chat_template.empty()) files.templates["default"] = chat_template;
  return chat::ModelText::parse(files).value();
}

}  // namespace muster::data

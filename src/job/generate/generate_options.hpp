// The options of `muster generate` that are short for settings, each named once.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace muster::job {

struct GenerateSetting {
  enum class Form {
    value,   // the setting's own text
    texts,   // may be repeated; each word is one text, verbatim
    limits,  // 0=10GiB,cpu=30GiB
  };
  std::string_view option;
  std::string_view key;
  Form form = Form::value;
};
std::span<const GenerateSetting> generate_settings();

// The words that followed an option, as its setting has them. words: at least one.
Result<std::string> setting_text(const GenerateSetting& setting, const std::vector<std::string>& words);

}  // namespace muster::job

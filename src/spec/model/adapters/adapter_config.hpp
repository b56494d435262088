// PEFT's adapter_config.json.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "spec/adapter_options.hpp"

namespace muster::spec {

// PEFT's task_type of an adapter beside a …ForSequenceClassification.
inline constexpr std::string_view classification_task = "SEQ_CLS";

struct AdapterConfig {
  AdapterOptions options;
  std::string base_model = {};     // a folder or a name; empty: the file does not say
  std::string task = "CAUSAL_LM";  // task_type; empty: the file does not say
  bool transposed = false;         // fan_in_fan_out: the adapted weights have inputs as rows, as those of GPT-2
  bool operator==(const AdapterConfig&) const = default;
};

// The file's text. source names it in messages. Every wrong key is reported. What would change the numbers and is not
// supported is refused by name: other methods than LoRA, embeddings' adapters, trained biases, starts that change the
// base. Keys that mean nothing here may have any value, keys that are not known only null, false or nothing in them.
Result<AdapterConfig> parse_adapter_config(std::string_view text, std::string_view source);

// A text that PEFT loads, and that parse_adapter_config reads as the same configuration. The targets must be there: to
// PEFT none means a choice of its own (see target_names).
std::string write_adapter_config(const AdapterConfig& config);

}  // namespace muster::spec

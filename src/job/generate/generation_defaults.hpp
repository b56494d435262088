// A model's own generation_config.json, which says how answers are drawn: defaults, below everything that a user sets.
#pragma once

#include "base/result.hpp"
#include "spec/resolve.hpp"

namespace muster::job {

// Fills in generation settings that are not set from the file next to model.path's weights, and notes which, and
// what in it is not supported. No model, or no such file: nothing changes. A value that is not valid is refused.
//
// Taken are temperature, top_k, top_p, min_p, repetition_penalty, max_new_tokens and stop_strings; do_sample=false is
// temperature 0. Keys that are missing or null leave the built-in values, as in vLLM. Tokens that end an answer
// (eos_token_id) are part of chat::ModelText.
Result<void> add_generation_defaults(spec::ResolvedSpec& settings);

}  // namespace muster::job

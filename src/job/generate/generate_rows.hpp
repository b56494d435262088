// What is sent to a rank for a prompt, and the lines that are written for what comes back.
#pragma once

#include <string>

#include "job/generate/prompt_file.hpp"
#include "wire/generate_task.hpp"

namespace muster::job {

using OrderedJson = nlohmann::ordered_json;  // templates see keys in their order

// Even escaped twice on its way to a rank, a line still fits the channel.
inline constexpr std::size_t longest_prompt_line = std::size_t{8} << 20;

// The prompt as it appears in a request. completion: only if it is to be scored.
std::string request_row(const PromptRow& prompt, PromptUse use);

// One line for each sample: {"index", "id", "sample", "text", "tokens", "finish"}, "logprobs" where they were asked
// for, and "dropped_tokens" where the prompt's beginning was cut off.
std::string answer_lines(std::int64_t index, const OrderedJson& id, const wire::GenerationResult& result,
                         bool log_probabilities);

// One line: {"index", "id", "logprob", "token_count"}, and the same two.
std::string score_line(std::int64_t index, const OrderedJson& id, const wire::ScoreResult& result,
                       bool log_probabilities);

}  // namespace muster::job

// Turns a model's answers into data that it can be trained on.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.hpp"
#include "experiment/experiment_spec.hpp"

namespace muster::service {

// Joins prompts with the rows that muster generate wrote for them: {"prompt", "completion"}, or {"messages"} with the
// answer as the last one. keep right: only answers equal to the row's own "answer", apart from white space around them.
// The output appears whole.
Result<void> write_generated_data(const std::string& prompts, const std::filesystem::path& answers,
                                  experiment::Keep keep, const std::filesystem::path& output);

}  // namespace muster::service

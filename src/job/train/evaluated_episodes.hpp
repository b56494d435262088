// The environments that a model is evaluated in while it is trained: their rows, ready to be played.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "chat/model_text.hpp"
#include "spec/run_spec.hpp"
#include "wire/train_task.hpp"

namespace muster::job {

struct EvaluatedEpisodes {
  std::optional<wire::EpisodeEvaluations> evaluations;  // absent: none are asked for
  std::vector<std::string> rows;                        // a file for each environment, which ranks read
};

// Refused with file and line: rows that an environment does not take, or that leave no room for an answer. most_tokens: of an
// episode, its prompt included.
Result<EvaluatedEpisodes> prepare_episodes(const spec::RunSpec& spec, const chat::ModelText& text,
                                           const std::filesystem::path& cache, std::int64_t most_tokens);

}  // namespace muster::job

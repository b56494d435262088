// Rows of episodes, with what a model reads before its first answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "chat/model_text.hpp"
#include "data/row_questions.hpp"
#include "spec/environment_options.hpp"
#include "spec/run_spec.hpp"

namespace muster::job {

struct EpisodeSource {
  spec::EnvironmentOptions environment;
  std::string rows;      // a file or folder, or builtin:arithmetic
  bool held_out = false;  // of builtin:arithmetic those that are never trained on
};

// Refused with file and line: rows that the environment does not take. Refused: a chat template that does not take what the
// environment says.
Result<std::vector<data::RowPrompt>> read_episodes(const spec::RunSpec& spec, const EpisodeSource& source,
                                                   const chat::ModelText& text);
// What the settings say is acted in; they have an environment.
EpisodeSource source_of_episodes(const spec::RunSpec& spec);

// Refused with file and line: rows whose opening leaves no room for an answer.
Result<void> check_room(const std::vector<data::RowPrompt>& rows, const chat::ModelText& text, std::int64_t most_tokens);

}  // namespace muster::job

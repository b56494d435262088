// Rows of episodes, with what a model reads before its first answer.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "chat/model_text.hpp"
#include "data/row_questions.hpp"
#include "spec/run_spec.hpp"

namespace muster::job {

// The spec has an environment. Refused with file and line: rows that the environment does not take. Refused: a chat template
// that does not take what the environment says.
Result<std::vector<data::RowPrompt>> read_episodes(const spec::RunSpec& spec, const chat::ModelText& text);

}  // namespace muster::job

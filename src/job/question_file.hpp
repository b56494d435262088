// Questions with right answers, kept where ranks read them.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.hpp"
#include "data/row_questions.hpp"
#include "spec/run_spec.hpp"

namespace muster::job {

// Those of builtin:arithmetic that are never trained on.
Result<std::vector<data::RowQuestion>> held_out_questions(const spec::RunSpec& spec);

// Under a name that follows from the questions, so that several processes may write the same.
Result<std::filesystem::path> keep_questions(const std::vector<data::RowQuestion>& questions,
                                             const std::filesystem::path& cache);

// The same of prompts, with their rows.
Result<std::filesystem::path> keep_prompts(const std::vector<data::RowPrompt>& prompts, const std::filesystem::path& cache);

}  // namespace muster::job

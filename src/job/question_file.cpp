#include "job/question_file.hpp"

#include <nlohmann/json.hpp>

#include "job/arithmetic_data.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

namespace muster::job {

Result<std::vector<data::RowQuestion>> held_out_questions(const spec::RunSpec& spec) {
  const auto made = data::arithmetic_questions(arithmetic_settings(spec));
  if (!made) return made.error();
  std::vector<data::RowQuestion> questions;
  for (const auto& [prompt, answer] : made->held_out) questions.push_back({prompt, answer, false});
  return questions;
}

Result<std::filesystem::path> keep_questions(const std::vector<data::RowQuestion>& questions,
                                             const std::filesystem::path& cache) {
  std::string lines;
  for (const data::RowQuestion& question : questions) {
    nlohmann::ordered_json row{{"prompt", question.prompt}, {"answer", question.answer}};
    if (question.rendered) row["rendered"] = true;
    lines += row.dump() + "\n";
  }
  Sha256 digest;
  digest.add(std::as_bytes(std::span(lines)));
  std::error_code ignored;
  std::filesystem::create_directories(cache / "questions", ignored);
  const std::filesystem::path path = cache / "questions" / (digest.finish() + ".jsonl");
  if (!std::filesystem::exists(path, ignored))
    if (auto written = write_file_atomically(path, lines); !written) return written.error();
  return path;
}

}  // namespace muster::job

#include "job/question_file.hpp"

#include <nlohmann/json.hpp>

#include "job/arithmetic_data.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

namespace muster::job {
namespace {

Result<std::filesystem::path> keep_lines(const std::string& lines, const std::filesystem::path& cache) {
  Sha256 digest;
  digest.add(std::as_bytes(std::span(lines)));
  std::error_code ignored;
  std::filesystem::create_directories(cache / "questions", ignored);
  const std::filesystem::path path = cache / "questions" / (digest.finish() + ".jsonl");
  if (!std::filesystem::exists(path, ignored))
    if (auto written = write_file_atomically(path, lines); !written) return written.error();
  return path;
}

}  // namespace

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
  return keep_lines(lines, cache);
}

Result<std::filesystem::path> keep_prompts(const std::vector<data::RowPrompt>& prompts,
                                           const std::filesystem::path& cache) {
  std::string lines;
  for (const data::RowPrompt& prompt : prompts) {
    nlohmann::ordered_json row{{"prompt", prompt.prompt}};
    if (prompt.answer) row["answer"] = *prompt.answer;
    if (prompt.rendered) row["rendered"] = true;
    if (!prompt.row.empty()) row["row"] = nlohmann::ordered_json::parse(prompt.row, nullptr, false);
    lines += row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  return keep_lines(lines, cache);
}

}  // namespace muster::job

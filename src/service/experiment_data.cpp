#include "service/experiment_data.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.hpp"
#include "job/generate/prompt_file.hpp"
#include "system/files.hpp"

namespace muster::service {
namespace {

using nlohmann::ordered_json;

Error unfit(std::string what, std::string remedy) { return {Error::Kind::failed, std::move(what), std::move(remedy)}; }

ordered_json row_of(const job::PromptRow& prompt, const std::string& answer) {
  if (prompt.prompt) return {{"prompt", *prompt.prompt}, {"completion", answer}};
  ordered_json row{{"messages", prompt.messages}};
  row["messages"].push_back({{"role", "assistant"}, {"content", answer}});
  if (!prompt.tools.is_null()) row["tools"] = prompt.tools;
  return row;
}

// The right answers of a file of prompts, by row.
Result<std::vector<std::string>> right_answers(const std::string& prompts) {
  const auto text = read_file(prompts);
  if (!text) return text.error();
  std::vector<std::string> answers;
  for (const std::string& line : split(*text, '\n')) {
    if (trim(line).empty()) continue;
    const auto row = nlohmann::json::parse(line, nullptr, false);
    const auto answer = row.is_object() ? row.find("answer") : row.end();
    if (!row.is_object() || answer == row.end() || !answer->is_string())
      return unfit(fmt::format("row {} of {} has no \"answer\", and only right answers are to be kept",
                               answers.size() + 1, prompts),
                   "write keep: all, or JSON lines with prompt and answer");
    answers.emplace_back(trim(answer->get<std::string>()));
  }
  return answers;
}

}  // namespace

Result<void> write_generated_data(const std::string& prompts, const std::filesystem::path& answers,
                                  experiment::Keep keep, const std::filesystem::path& output) {
  std::optional<std::vector<std::string>> right;
  if (keep == experiment::Keep::right) {
    auto read = right_answers(prompts);
    if (!read) return read.error();
    right = std::move(*read);
  }
  const auto text = read_file(answers);
  if (!text) return text.error();
  auto file = job::PromptFile::open(prompts, job::PromptUse::prompts);
  if (!file) return file.error();
  std::optional<job::PromptRow> prompt;
  std::string data;
  for (const std::string& line : split(*text, '\n')) {
    if (line.empty()) continue;
    const auto answer = nlohmann::json::parse(line, nullptr, false);
    if (!answer.is_object() || !answer.contains("index") || !answer["index"].is_number_integer() ||
        !answer.contains("text") || !answer["text"].is_string())
      return unfit(fmt::format("{} has a line that is not an answer", answers.string()), "remove the file");
    const auto index = answer["index"].get<std::int64_t>();
    while (!prompt || prompt->index < index) {
      auto next = file->next();
      if (!next) return next.error();
      if (!*next) return unfit(fmt::format("{} has fewer rows than {}", prompts, answers.string()), "");
      prompt = std::move(**next);
    }
    const auto given = answer["text"].get<std::string>();
    if (right && (*right)[static_cast<std::size_t>(index)] != trim(given)) continue;
    data += row_of(*prompt, given).dump() + "\n";
  }
  if (data.empty()) return unfit("none of the answers is right: there is nothing to train on", "keep: all keeps them");
  return write_file_atomically(output, data);
}

}  // namespace muster::service

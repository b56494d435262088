#include "data/row_questions.hpp"

#include <fmt/format.h>

#include "system/files.hpp"
#include "base/text.hpp"
#include "data/piece_reader.hpp"
#include "data/row_files.hpp"
#include "data/training_row.hpp"
#include "json/json_text.hpp"

namespace muster::data {
namespace {

constexpr std::size_t most_problems = 10;

Result<RowQuestion> ask(chat::Conversation conversation, std::string answer, const chat::ModelText& text) {
  conversation.add_generation_prompt = true;
  auto rendered = text.render(conversation);
  if (!rendered) return rendered.error();
  return RowQuestion{std::move(rendered->text), std::move(answer), true};
}

Result<RowQuestion> question_of(const ConversationRow& row, const chat::ModelText& text) {
  const nlohmann::ordered_json& messages = row.conversation.messages;
  const bool answered = messages.size() > 1 && messages.back().value("role", "") == "assistant" &&
                        messages.back().contains("content") && messages.back()["content"].is_string();
  if (!answered)
    return bad_input("the last message is not text of the assistant's, so that there is no right answer",
                     "end messages with the assistant's answer, or leave --exact-match out");
  chat::Conversation asked = row.conversation;
  asked.messages.erase(asked.messages.size() - 1);
  return ask(std::move(asked), messages.back()["content"].get<std::string>(), text);
}

Result<RowQuestion> row_question(std::string_view line, const chat::ModelText& text) {
  const auto row = parse_training_row(line);
  if (!row) return row.error();
  if (const auto* pair = std::get_if<PairRow>(&*row)) return RowQuestion{pair->prompt, pair->completion, false};
  if (const auto* conversation = std::get_if<ConversationRow>(&*row)) return question_of(*conversation, text);
  if (std::holds_alternative<TrajectoryRow>(*row))
    return bad_input("a trajectory has answers of its own, and none is the right one",
                     "rows with prompt and completion, or with messages; muster collect plays episodes");
  return bad_input("a text asks nothing, so that there is no right answer",
                   "rows with prompt and completion, or with messages; or leave --exact-match out");
}

Result<RowQuestion> asked_question(std::string_view line, const chat::ModelText& text) {
  const auto row = parse_ordered_json_object(line, "the row");
  if (!row) return row.error();
  const auto answer = row->find("answer"), prompt = row->find("prompt"), messages = row->find("messages");
  if (answer == row->end() || !answer->is_string() || (prompt == row->end()) == (messages == row->end()))
    return bad_input("it has no text \"answer\" with either \"prompt\" or \"messages\"",
                     R"({"prompt": "12+34=", "answer": "46"})");
  if (prompt != row->end()) {
    if (!prompt->is_string()) return bad_input("its \"prompt\" is not text", R"({"prompt": "12+34=", "answer": "46"})");
    return RowQuestion{prompt->get<std::string>(), answer->get<std::string>(), false};
  }
  if (!messages->is_array() || messages->empty())
    return bad_input("its \"messages\" is not a list of messages", R"([{"role": "user", "content": "…"}])");
  chat::Conversation conversation;
  conversation.messages = *messages;
  return ask(std::move(conversation), answer->get<std::string>(), text);
}

constexpr std::string_view prompt_row = R"({"prompt": "12+34=", "answer": "46"})";

std::optional<std::string> answer_of(const nlohmann::ordered_json& row) {
  for (const char* key : {"answer", "solution", "completion"}) {
    const auto found = row.find(key);
    if (found == row.end() || found->is_null()) continue;
    return found->is_string() ? found->get<std::string>() : found->dump();
  }
  return std::nullopt;
}

Result<RowPrompt> row_prompt(std::string_view line, const chat::ModelText& text) {
  const auto row = parse_ordered_json_object(line, "the row");
  if (!row) return row.error();
  RowPrompt found;
  found.row = row->dump();
  found.answer = answer_of(*row);
  const nlohmann::ordered_json* asked = nullptr;
  for (const char* key : {"prompt", "question", "messages"})
    if (const auto place = row->find(key); place != row->end() && asked == nullptr) asked = &*place;
  if (asked != nullptr && asked->is_string()) {
    found.prompt = asked->get<std::string>();
    if (trim(found.prompt).empty()) return bad_input("its prompt is empty", std::string(prompt_row));
    return found;
  }
  if (asked == nullptr || !asked->is_array() || asked->empty())
    return bad_input("it has no \"prompt\" or \"question\", a text or messages, and no \"messages\"",
                     std::string(prompt_row));
  chat::Conversation conversation;
  conversation.messages = *asked;
  const nlohmann::ordered_json& last = conversation.messages.back();
  if (last.is_object() && last.value("role", "") == "assistant") {
    if (!found.answer && last.contains("content") && last["content"].is_string())
      found.answer = last["content"].get<std::string>();
    conversation.messages.erase(conversation.messages.size() - 1);
  }
  if (conversation.messages.empty())
    return bad_input("its messages ask nothing", R"([{"role": "user", "content": "…"}])");
  if (const auto tools = row->find("tools"); tools != row->end()) conversation.tools = *tools;
  auto question = ask(std::move(conversation), "", text);
  if (!question) return question.error();
  found.prompt = std::move(question->prompt);
  found.rendered = true;
  return found;
}

Result<RowPrompt> whole_row(std::string_view line) {
  const auto row = parse_ordered_json_object(line, "the row");
  if (!row) return row.error();
  RowPrompt found;
  found.row = row->dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return found;
}

// read: from a line to a row. Up to ten rows that are refused are told at once.
template <class Row, class Read>
Result<void> read_into(std::vector<Row>& rows, const std::filesystem::path& path, Read&& read) {
  const auto content = read_file(path);
  if (!content) return content.error();
  std::vector<Problem> problems;
  std::int64_t number = 0;
  for (const std::string_view line : lines_of(*content)) {
    ++number;
    if (trim(line).empty()) continue;
    Result<Row> row = read(line);
    const std::string where = fmt::format("{}:{}", path.string(), number);
    if constexpr (requires(Row one) { one.where; })
      if (row) row->where = where;
    if (row)
      rows.push_back(std::move(*row));
    else
      problems.push_back({where, row.error().what, row.error().remedy});
    if (problems.size() == most_problems) break;
  }
  if (!problems.empty()) return to_error(problems);
  return {};
}

}  // namespace

Result<std::vector<RowQuestion>> questions_of_rows(const std::filesystem::path& path, const chat::ModelText& text) {
  const auto files = find_row_files(path);
  if (!files) return files.error();
  std::vector<RowQuestion> questions;
  for (const RowFile& file : *files) {
    if (file.kind == RowFileKind::text)
      return bad_input(fmt::format("{} is a text, which asks nothing", file.path.string()),
                       "rows with prompt and completion, or with messages; or leave --exact-match out");
    if (auto read = read_into(questions, file.path, [&](std::string_view line) { return row_question(line, text); }); !read) return read.error();
  }
  return questions;
}

Result<std::vector<RowPrompt>> prompts_of_rows(const std::filesystem::path& path, const chat::ModelText& text) {
  const auto files = find_row_files(path);
  if (!files) return files.error();
  std::vector<RowPrompt> prompts;
  for (const RowFile& file : *files) {
    if (file.kind == RowFileKind::text)
      return bad_input(fmt::format("{} is a text, which asks nothing", file.path.string()), std::string(prompt_row));
    if (auto read = read_into(prompts, file.path, [&](std::string_view line) { return row_prompt(line, text); }); !read) return read.error();
  }
  if (prompts.empty())
    return bad_input(fmt::format("{} has no rows to answer", path.string()), std::string(prompt_row));
  return prompts;
}

Result<std::vector<RowPrompt>> whole_rows(const std::filesystem::path& path) {
  const auto files = find_row_files(path);
  if (!files) return files.error();
  std::vector<RowPrompt> rows;
  for (const RowFile& file : *files) {
    if (file.kind == RowFileKind::text)
      return bad_input(fmt::format("{} is a text, which asks nothing", file.path.string()), std::string(prompt_row));
    if (auto read = read_into(rows, file.path, whole_row); !read) return read.error();
  }
  if (rows.empty()) return bad_input(fmt::format("{} has no rows", path.string()), std::string(prompt_row));
  return rows;
}

Result<std::vector<RowQuestion>> questions_of_file(const std::filesystem::path& path, const chat::ModelText& text) {
  std::vector<RowQuestion> questions;
  if (auto read = read_into(questions, path, [&](std::string_view line) { return asked_question(line, text); }); !read) return read.error();
  if (questions.empty())
    return bad_input(fmt::format("{} has no questions", path.string()), R"({"prompt": "12+34=", "answer": "46"})");
  return questions;
}

}  // namespace muster::data

#include "job/train/prompt_to_try.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "data/row_files.hpp"
#include "data/training_row.hpp"
#include "system/regular_file.hpp"

namespace muster::job {
namespace {

using nlohmann::ordered_json;
constexpr const char* any_prompt = "Once upon a time";
constexpr std::size_t longest_tried_row = std::size_t{1} << 20;
constexpr std::size_t longest_prompt = 160;
constexpr std::size_t words_of_text = 6;

std::string as_line(const ordered_json& row) {
  return row.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// At a blank, so that no word and no character is cut.
std::string shortened(const std::string& text) {
  if (text.size() <= longest_prompt) return text;
  const auto blank = text.find_last_of(" \n", longest_prompt);
  return blank == std::string::npos || blank == 0 ? any_prompt : text.substr(0, blank);
}

std::string beginning_of(const std::string& text) {
  const std::string_view whole = trim(text);
  const std::string line(trim(whole.substr(0, whole.find('\n'))));
  std::size_t end = 0;
  for (std::size_t word = 0; word < words_of_text && end != std::string::npos; ++word)
    end = line.find(' ', end == 0 ? 0 : end + 1);
  const std::string words = line.substr(0, end);
  return words.empty() || words.front() == '{' ? any_prompt : shortened(words);
}

// The question that the conversation begins with.
std::string first_question(const ordered_json& messages) {
  for (const ordered_json& message : messages)
    if (message.is_object() && message.value("role", ordered_json()) == "user" &&
        message.value("content", ordered_json()).is_string())
      return as_line(
          {{"messages",
            ordered_json::array({{{"role", "user"}, {"content", shortened(message["content"].get<std::string>())}}})}});
  return any_prompt;
}

std::string prompt_of(const data::TrainingRow& row) {
  if (const auto* pair = std::get_if<data::PairRow>(&row)) {
    const bool is_line = pair->prompt.find('\n') == std::string::npos && !trim(pair->prompt).starts_with('{');
    if (trim(pair->prompt).empty()) return any_prompt;
    return is_line ? shortened(pair->prompt) : as_line({{"prompt", pair->prompt}});
  }
  if (const auto* conversation = std::get_if<data::ConversationRow>(&row))
    return first_question(conversation->conversation.messages);
  if (const auto* trajectory = std::get_if<data::TrajectoryRow>(&row)) return beginning_of(trajectory->text_before(0));
  return beginning_of(std::get<data::TextRow>(row).text);
}

}  // namespace

std::string prompt_to_try(const std::filesystem::path& data) {
  const auto files = data::find_row_files(data);
  if (!files || files->empty()) return any_prompt;
  const auto file = RegularFile::open(files->front().path);
  if (!file) return any_prompt;
  const auto text = file->beginning(std::min<std::uint64_t>(file->size(), longest_tried_row));
  if (!text) return any_prompt;
  if (files->front().kind == data::RowFileKind::text) return beginning_of(*text);
  for (const std::string& line : split(*text, '\n')) {
    if (trim(line).empty()) continue;
    const auto row = data::parse_training_row(line);
    return row ? prompt_of(*row) : any_prompt;
  }
  return any_prompt;
}

std::string piped(const std::string& line) {
  // echo would take these for options, or, in some shells, for control characters.
  const bool plain = !line.starts_with('-') && line.find('\\') == std::string::npos;
  return fmt::format("{} {}", plain ? "echo" : "printf '%s\\n'", shell_word(line));
}

}  // namespace muster::job

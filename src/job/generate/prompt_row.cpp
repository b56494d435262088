#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "job/generate/prompt_file.hpp"
#include "json/json_text.hpp"

namespace muster::job {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array known_keys{"prompt",
                                "messages",
                                "id",
                                "max_new_tokens",
                                "completion",
                                "tools",
                                "text",
                                "add_generation_prompt",
                                "continue_final_message",
                                "documents",
                                "tokens",
                                "template_variables",
                                "adapter"};
constexpr std::int64_t most_new_tokens = 1'000'000'000;
constexpr std::int64_t largest_token = 1 << 24;

// One row, with everything that is wrong in it.
class RowReader {
 public:
  RowReader(const Json& row, std::string_view source, const std::vector<std::string>& adapters)
      : row_(row), source_(source), adapters_(adapters) {}

  PromptRow read() {
    PromptRow read;
    look_for_typing_errors();
    take(
        "id", "text or a whole number", [](const Json& id) { return id.is_string() || id.is_number_integer(); },
        read.id);
    take_text("prompt", read.prompt);
    take_text("completion", read.completion);
    take("messages", "a list of objects", &is_objects, read.messages);
    take("tools", "a list of objects, or null", &is_objects, read.tools);
    take("documents", "a list of objects, or null", &is_objects, read.documents);
    take(
        "template_variables", "an object", [](const Json& value) { return value.is_object(); },
        read.template_variables);
    Json flag;
    take("add_generation_prompt", "true or false", &is_boolean, flag);
    if (flag.is_boolean()) read.add_generation_prompt = flag.get<bool>();
    flag = nullptr;
    take("continue_final_message", "true or false", &is_boolean, flag);
    read.continue_final_message = flag.is_boolean() && flag.get<bool>();
    take_count(read);
    take_tokens(read);
    take_adapter(read);
    return read;
  }

  void require(const PromptRow& row, PromptUse use) {
    if (use == PromptUse::decoding) {
      if (!row_.contains("tokens")) problem("no \"tokens\"", "give the ids as a list");
      return;
    }
    const bool prompt = row.prompt.has_value(), messages = row_.contains("messages");
    if (!prompt && !messages && !has_problem("prompt") && !has_problem("messages"))
      problem("neither \"prompt\" nor \"messages\"", "give one of the two");
    if (prompt && messages) problem("both \"prompt\" and \"messages\"", "give one of the two");
    if (use == PromptUse::scores && !row.completion && !has_problem("completion"))
      problem("no \"completion\" to score", "give the text whose likelihood is asked for");
    for (const char* key :
         {"tools", "documents", "template_variables", "add_generation_prompt", "continue_final_message"})
      if (prompt && !messages && row_.contains(key) && !row_[key].is_null())
        problem(fmt::format("\"{}\" without \"messages\"", key), "it is for chat templates");
  }

  std::vector<Problem> problems;

 private:
  static bool is_boolean(const Json& value) { return value.is_boolean(); }
  static bool is_objects(const Json& value) {
    return value.is_array() && std::ranges::all_of(value, [](const Json& entry) { return entry.is_object(); });
  }

  bool has_problem(const std::string& key) const {
    return std::ranges::any_of(problems,
                               [&](const Problem& found) { return found.what.starts_with("\"" + key + "\""); });
  }

  void problem(std::string what, std::string remedy) {
    problems.push_back({std::string(source_), std::move(what), std::move(remedy)});
  }

  // A value that is present and not null, if it has the accepted type.
  template <class Accepts>
  void take(const char* key, std::string_view accepted, Accepts accepts, Json& into) {
    const auto found = row_.find(key);
    if (found == row_.end() || found->is_null()) return;
    if (accepts(*found))
      into = *found;
    else
      problem(fmt::format("\"{}\" is {}", key, shown(*found)), fmt::format("accepted: {}", accepted));
  }

  void take_text(const char* key, std::optional<std::string>& into) {
    Json text;
    take(
        key, "text", [](const Json& value) { return value.is_string(); }, text);
    if (text.is_string()) into = text.get<std::string>();
  }

  void take_count(PromptRow& read) {
    Json count;
    take(
        "max_new_tokens", "a whole number from 1",
        [](const Json& value) { return value.is_number_integer() && value >= 1 && value <= most_new_tokens; }, count);
    if (!count.is_null()) read.max_new_tokens = count.get<std::int64_t>();
  }

  void take_tokens(PromptRow& read) {
    const auto is_id = [](const Json& id) { return id.is_number_integer() && id >= 0 && id <= largest_token; };
    Json ids;
    take(
        "tokens", "a list of token ids",
        [&](const Json& value) { return value.is_array() && std::ranges::all_of(value, is_id); }, ids);
    if (ids.is_array()) read.tokens = ids.get<std::vector<std::int32_t>>();
  }

  void take_adapter(PromptRow& read) {
    std::optional<std::string> name;
    take_text("adapter", name);
    if (!name) return;
    if (name->empty()) {
      read.adapter = -1;
      return;
    }
    const auto found = std::ranges::find(adapters_, *name);
    read.adapter = found - adapters_.begin();
    if (found == adapters_.end())
      problem(fmt::format("\"adapter\" is {}", shown(nlohmann::json(*name))),
              adapters_.empty() ? "name its folder with --adapter"
                                : fmt::format("there are {}; \"\" is the model alone", join(adapters_, ", ")));
  }

  void look_for_typing_errors() {
    const std::vector<std::string> known(known_keys.begin(), known_keys.end());
    for (const auto& [key, value] : row_.items()) {
      if (std::ranges::find(known, key) != known.end()) continue;
      if (const auto near = nearest(key, known); near && key.size() > 4)
        problem(fmt::format("{} is not known", shown(nlohmann::json(key))),
                fmt::format("did you mean \"{}\"?", *near));
    }
  }

  const Json& row_;
  std::string_view source_;
  const std::vector<std::string>& adapters_;
};

}  // namespace

Result<PromptRow> parse_prompt_row(std::string_view json, std::string_view source, PromptUse use,
                                   const std::vector<std::string>& adapters) {
  const auto parsed = parse_ordered_json_object(json, source);
  if (!parsed) return parsed.error();
  RowReader reader(*parsed, source, adapters);
  PromptRow row = reader.read();
  reader.require(row, use);
  if (!reader.problems.empty()) return to_error(reader.problems);
  return row;
}

}  // namespace muster::job

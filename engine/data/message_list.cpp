#include "data/message_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "json/json_text.hpp"

namespace muster::data {
namespace {

using Json = nlohmann::ordered_json;

// Those that chat templates know: the last three are names that families have for a tool's result.
constexpr std::array<std::string_view, 8> roles{"system", "developer", "user",    "assistant",
                                                "tool",   "function",  "ipython", "observation"};

Error bad_message(std::size_t number, std::string_view what, std::string remedy) {
  return {Error::Kind::bad_input, fmt::format("message {} {}", number, what), std::move(remedy)};
}

bool has(const Json& message, const char* key) { return message.contains(key) && !message[key].is_null(); }

Result<void> check_message_content(std::size_t number, const Json& message) {
  constexpr const char* remedy = R"(a message is {"role": "user", "content": "…"}; content is a text or a list of parts)";
  const bool answers = message["role"] == "assistant";
  const bool says_more = answers && (has(message, "tool_calls") || has(message, "reasoning_content") ||
                                     has(message, "thinking") || has(message, "reasoning"));
  if (!has(message, "content")) {
    if (says_more) return {};
    return bad_message(number, message.contains("content") ? "has the content null" : "has no \"content\"", remedy);
  }
  const Json& content = message["content"];
  const bool is_result = !answers && content.is_object();  // of a tool, which some templates take as it is
  if (!content.is_string() && !content.is_array() && !is_result)
    return bad_message(number, fmt::format("has the content {}", shown(content)), remedy);
  if (answers && !says_more && (content == "" || content.empty()))
    return bad_message(number, "is the assistant's and empty, so that there is nothing to train on",
                       "remove the message or the row, or write what is to be learnt");
  return {};
}

Result<void> check_message(std::size_t number, const Json& message) {
  if (!message.is_object())
    return bad_message(number, fmt::format("is {}", shown(message)), R"({"role": "user", "content": "…"})");
  if (!message.contains("role") || !message["role"].is_string()) {
    const bool share_gpt = message.contains("from") && message.contains("value");
    return bad_message(number,
                       message.contains("role") ? fmt::format("has the role {}", shown(message["role"]))
                                                : "has no \"role\"",
                       share_gpt ? R"(write {"from": "human", "value": "…"} as {"role": "user", "content": "…"})"
                                 : R"({"role": "user", "content": "…"})");
  }
  const auto role = message["role"].get<std::string>();
  if (std::ranges::find(roles, role) == roles.end())
    return bad_message(number, fmt::format("has the role \"{}\", which is not known", role),
                       fmt::format("accepted: {}", join(std::vector<std::string>(roles.begin(), roles.end()), ", ")));
  return check_message_content(number, message);
}

}  // namespace

Result<void> check_messages(std::string_view key, const Json& messages) {
  if (!messages.is_array() || messages.empty())
    return Error{Error::Kind::bad_input, fmt::format("\"{}\" is {}, not a list of messages", key, shown(messages)),
                 fmt::format(R"("{}": [{{"role": "user", "content": "…"}}, …])", key)};
  for (std::size_t i = 0; i < messages.size(); ++i)
    if (auto checked = check_message(i + 1, messages[i]); !checked) return checked.error();
  return {};
}

}  // namespace muster::data

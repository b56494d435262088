#include "data/trajectory_row.hpp"

#include <fmt/format.h>

#include <string_view>

#include "data/message_list.hpp"
#include "json/json_text.hpp"

namespace muster::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* trajectory_shape =
    R"({"observations": [{"messages": […]}, …], "actions": [{"role": "assistant", "content": "…"}, …], "rewards": [{"value": 1}, …]}, as muster collect writes them)";

Error bad_trajectory(std::string what) { return {Error::Kind::bad_input, std::move(what), trajectory_shape}; }

Result<void> check_lists(const Json& row) {
  for (const char* key : {"observations", "actions"})
    if (!row[key].is_array() || row[key].empty())
      return bad_trajectory(fmt::format("\"{}\" is {}, not a list", key, shown(row[key])));
  const std::size_t answers = row["actions"].size(), observations = row["observations"].size();
  if (observations != answers && observations != answers + 1)
    return bad_trajectory(fmt::format("the row has {} observations and {} actions: each action needs the observation before it, and "
                               "the last one may be followed by another",
                               observations, answers));
  if (row.contains("rewards") && (!row["rewards"].is_array() || row["rewards"].size() != answers))
    return bad_trajectory(fmt::format("\"rewards\" is {}, and there are {} actions", shown(row["rewards"]), answers));
  return {};
}

// The messages of an observation that were not there before.
Result<Json> news_of(const Json& observation, std::size_t number, const Json& before) {
  if (!observation.is_object() || !observation.contains("messages") || !observation["messages"].is_array())
    return bad_trajectory(fmt::format("observation {} is {}, without a list of messages", number, shown(observation)));
  Json messages = observation["messages"];
  for (Json& message : messages)
    if (message.is_object() && message.value("role", Json()) == "environment") message["role"] = "user";
  if (!messages.empty())
    if (auto checked = check_messages(fmt::format("messages of observation {}", number), messages); !checked)
      return checked.error();
  const bool repeats = messages.size() >= before.size() &&
                       std::equal(before.begin(), before.end(), messages.begin());
  if (!before.empty() && repeats)
    messages.erase(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(before.size()));
  return messages;
}

Result<Json> answer_message(const Json& action, std::size_t number) {
  const Json list = Json::array({action});
  if (auto checked = check_messages("actions", list); !checked)
    return bad_trajectory(fmt::format("action {}: {}", number, checked.error().what));
  if (action["role"] != "assistant")
    return bad_trajectory(fmt::format("action {} is of the role {}, and actions are the assistant's", number, shown(action["role"])));
  return action;
}

Result<void> add_rewards(const Json& rewards, TrajectoryRow& made) {
  made.has_rewards = true;
  made.reward = 0;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    const Json& one = rewards[i];
    const Json value = one.is_object() ? one.value("value", Json()) : one;
    if (value.is_null() && (!one.is_object() || one.contains("value")))
      made.reward.reset();
    else if (!value.is_number())
      return bad_trajectory(fmt::format("reward {} is {}, not a number", i + 1, shown(one)));
    else if (made.reward)
      *made.reward += value.get<double>();
  }
  return {};
}

void add_lines(const Json& messages, std::string& text) {
  for (const Json& message : messages) {
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    const Json& content = message["content"];
    text += content.is_string() ? content.get<std::string>() : content.dump();
  }
}

}  // namespace

chat::Conversation TrajectoryRow::conversation() const {
  chat::Conversation made;
  for (std::size_t i = 0; i < said.size(); ++i) {
    for (const Json& message : said[i]) made.messages.push_back(message);
    if (i < answers.size()) made.messages.push_back(answers[i]);
  }
  return made;
}

std::string TrajectoryRow::text_before(std::size_t answer) const {
  std::string text;
  for (std::size_t i = 0; i <= answer; ++i) {
    add_lines(said[i], text);
    if (i > 0) text += '\n';
    if (i < answer) text += answers[i]["content"].get<std::string>();
  }
  return text;
}

std::string TrajectoryRow::text_after(std::size_t answer) const {
  std::string text;
  add_lines(said[answer + 1], text);
  return text;
}

Result<TrajectoryRow> parse_trajectory(nlohmann::ordered_json row) {
  if (auto checked = check_lists(row); !checked) return checked.error();
  TrajectoryRow made;
  Json before = Json::array();
  const Json &observations = row["observations"], &actions = row["actions"];
  for (std::size_t i = 0; i <= actions.size(); ++i) {
    auto news = i < observations.size() ? news_of(observations[i], i + 1, before) : Result<Json>(Json::array());
    if (!news) return news.error();
    if (i == 0 && news->empty()) return bad_trajectory("the first observation has no message, so that nothing is answered");
    for (const Json& message : *news) before.push_back(message);
    made.said.push_back(std::move(*news));
    if (i == actions.size()) break;
    auto answer = answer_message(actions[i], i + 1);
    if (!answer) return answer.error();
    before.push_back(*answer);
    made.answers.push_back(std::move(*answer));
  }
  if (row.contains("rewards"))
    if (auto added = add_rewards(row["rewards"], made); !added) return added.error();
  return made;
}

}  // namespace muster::data

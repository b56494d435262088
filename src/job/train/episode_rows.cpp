#include "job/train/episode_rows.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "chat/appended_turn.hpp"
#include "data/arithmetic.hpp"
#include "data/prepare_data.hpp"
#include "environment/environment.hpp"
#include "job/arithmetic_data.hpp"

namespace muster::job {
namespace {

constexpr std::size_t most_bad_rows = 10;

Result<std::vector<data::RowPrompt>> rows_of(const spec::RunSpec& spec, const EpisodeSource& source) {
  if (source.rows != data::arithmetic_name) return data::whole_rows(source.rows);
  const auto made = data::arithmetic_questions(arithmetic_settings(spec));
  if (!made) return made.error();
  std::vector<data::RowPrompt> rows;
  const bool held_out = source.held_out && !made->held_out.empty();
  for (const auto& [prompt, answer] : held_out ? made->held_out : made->training) {
    data::RowPrompt& row = rows.emplace_back();
    row.row = nlohmann::ordered_json{{"prompt", prompt}, {"answer", answer}}.dump();
  }
  return rows;
}

// What the environment says after an answer must be possible to say.
Result<void> check_template(const spec::EnvironmentOptions& options, const chat::ModelText& text) {
  const bool is_tools = options.kind == spec::EnvironmentKind::tool;
  const std::string role = is_tools ? options.tool_role : "user";
  const auto said = chat::tokens_after_answer(text, nlohmann::ordered_json::array({{{"role", role}, {"content", "1"}}}), -1);
  if (said) return {};
  return bad_input(fmt::format("the model's chat template does not take a message of the role {}: {}", role, said.error().what),
                   is_tools && role != "user" ? "environment.tool_role=user" : "take another model");
}

}  // namespace

EpisodeSource source_of_episodes(const spec::RunSpec& spec) { return {*spec.environment_options(), *spec.data.path}; }

Result<void> check_room(const std::vector<data::RowPrompt>& rows, const chat::ModelText& text, std::int64_t most_tokens) {
  std::vector<Problem> problems;
  for (const data::RowPrompt& row : rows) {
    const auto tokens = row.rendered ? text.encode_rendered(row.prompt) : text.encode(row.prompt);
    if (!tokens) return tokens.error();
    if (std::ssize(*tokens) >= most_tokens && problems.size() < most_bad_rows)
      problems.push_back({row.where,
                          fmt::format("its prompt has {} tokens, and prompt and answer together may have {}",
                                      std::ssize(*tokens), most_tokens),
                          "shorten it, or raise training.sequence_length as far as the model allows"});
  }
  return problems.empty() ? Result<void>() : to_error(problems);
}

Result<std::vector<data::RowPrompt>> read_episodes(const spec::RunSpec& spec, const EpisodeSource& source,
                                                   const chat::ModelText& text) {
  const spec::EnvironmentOptions& options = source.environment;
  const auto environment = environment::make_environment(options);
  if (!environment) return environment.error();
  if (options.turns > 1)
    if (auto checked = check_template(options, text); !checked) return checked.error();
  auto rows = rows_of(spec, source);
  if (!rows) return rows.error();
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < rows->size() && problems.size() < most_bad_rows; ++i) {
    data::RowPrompt& row = (*rows)[i];
    const auto session = (*environment)->reset(row.row, environment::seed_of_row(static_cast<std::uint64_t>(spec.experiment.seed), i));
    if (!session) {
      problems.push_back({row.where, session.error().what, session.error().remedy});
      continue;
    }
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    for (const environment::Message& message : (*session)->messages())
      messages.push_back({{"role", message.role}, {"content", message.content}});
    auto opening = chat::open_conversation(text, messages);
    if (!opening) {
      problems.push_back({row.where, opening.error().what, opening.error().remedy});
      continue;
    }
    row.prompt = std::move(opening->prompt);
    row.rendered = opening->rendered;
  }
  if (!problems.empty()) return to_error(problems);
  return rows;
}

}  // namespace muster::job

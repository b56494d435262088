#include "train/rollouts/rollout_log.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>

#include "base/checksum.hpp"
#include "json/json_text.hpp"
#include "system/files.hpp"

namespace muster::train {
namespace {

using Line = nlohmann::ordered_json;

std::string line_of(const Line& line) {
  return line.dump(-1, ' ', false, Line::error_handler_t::replace) + "\n";
}

Line number_or_null(const std::optional<double>& number) { return number ? Line(*number) : Line(nullptr); }

// A float32 is the same number as a double, and reads back as what it was.
Line as_doubles(const std::vector<float>& values) {
  Line list = Line::array();
  for (const float value : values) list.push_back(static_cast<double>(value));
  return list;
}

std::vector<float> as_floats(const Line& list) {
  std::vector<float> values;
  for (const Line& value : list) values.push_back(static_cast<float>(value.get<double>()));
  return values;
}

// Tokens that the environment said, by where they are; and all turns as texts.
void add_turns(Line& line, const Rollout& rollout, const RolloutTexts& texts) {
  line["inserted"] = Line::array();
  for (const InsertedTokens& span : rollout.inserted) line["inserted"].push_back({span.begin, span.end});
  const std::vector<std::string> said = texts.turns(rollout);
  line["turns"] = Line::array();
  for (std::size_t i = 0; i < rollout.turn_rewards.size(); ++i) {
    Line turn{{"answer", said.at(2 * i)}, {"reward", number_or_null(rollout.turn_rewards[i])}};
    if (2 * i + 1 < said.size()) turn["environment"] = said[2 * i + 1];
    line["turns"].push_back(std::move(turn));
  }
}

std::string answer_line(const Rollout& rollout, const RolloutTexts& texts) {
  Line parts = Line::object();
  for (std::size_t i = 0; i < rollout.parts.size(); ++i)
    parts[std::string(texts.functions.at(i))] = number_or_null(rollout.parts[i]);
  Line line{{"prompt", rollout.prompt},
                  {"sample", rollout.sample},
                  {"question", texts.question(rollout)},
                  {"answer", texts.answer(rollout)},
                  {"reward", number_or_null(rollout.reward)},
                  {"parts", std::move(parts)},
                  {"advantage", rollout.advantage},
                  {"ended", rollout.ended},
                  {"tokens", rollout.tokens},
                  {"log_probabilities", as_doubles(rollout.log_probabilities)}};
  if (!rollout.reference.empty()) line["reference"] = as_doubles(rollout.reference);
  if (!rollout.values.empty()) {
    line["values"] = as_doubles(rollout.values);
    line["advantages"] = rollout.token_advantages;
    line["returns"] = rollout.returns;
  }
  if (!rollout.turn_rewards.empty()) add_turns(line, rollout, texts);
  return line_of(line);
}

std::optional<double> optional_number(const Line& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

Rollout rollout_of(const Line& line) {
  Rollout rollout;
  rollout.prompt = line.at("prompt").get<std::int64_t>();
  rollout.sample = line.at("sample").get<std::int64_t>();
  rollout.reward = optional_number(line.at("reward"));
  for (const auto& [name, value] : line.at("parts").items()) rollout.parts.push_back(optional_number(value));
  rollout.advantage = line.at("advantage").get<double>();
  rollout.ended = line.at("ended").get<bool>();
  rollout.tokens = line.at("tokens").get<std::vector<std::int32_t>>();
  rollout.log_probabilities = as_floats(line.at("log_probabilities"));
  if (line.contains("inserted"))
    for (const Line& span : line["inserted"])
      rollout.inserted.push_back({span.at(0).get<std::int64_t>(), span.at(1).get<std::int64_t>()});
  if (line.contains("turns"))
    for (const Line& turn : line["turns"]) rollout.turn_rewards.push_back(optional_number(turn.at("reward")));
  if (line.contains("reference")) rollout.reference = as_floats(line.at("reference"));
  if (line.contains("values")) {
    rollout.values = as_floats(line.at("values"));
    rollout.token_advantages = line.at("advantages").get<std::vector<double>>();
    rollout.returns = line.at("returns").get<std::vector<double>>();
  }
  return rollout;
}

Error damaged(const std::filesystem::path& path) {
  return {Error::Kind::bad_input, fmt::format("{} is not what was written there: it is damaged or cut off", path.string()),
          "resume from a checkpoint at the beginning of a round (muster runs show lists them), or start again"};
}

std::string checksum_words(std::string_view text) {
  return fmt::format("{:016x}", checksum(std::as_bytes(std::span(text))));
}

}  // namespace

std::filesystem::path rollout_log_path(const std::filesystem::path& run_folder, std::int64_t round) {
  return run_folder / "rollouts" / fmt::format("round-{:06}.jsonl", round + 1);
}

Result<void> write_rollouts(const std::filesystem::path& path, const Round& round, const RolloutTexts& texts) {
  std::string lines;
  for (const Rollout& rollout : round.answers) lines += answer_line(rollout, texts);
  Line first{{"round", round.number + 1}, {"answers", round.answers.size()}, {"checksum", checksum_words(lines)}};
  if (!round.is_judged) first["judged"] = false;
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  return write_file_atomically(path, line_of(first) + lines);
}

Result<Round> read_rollouts(const std::filesystem::path& path) {
  const auto text = read_file(path);
  if (!text)
    return Error{Error::Kind::bad_input,
                 fmt::format("the answers that the run goes on with cannot be read: {}", text.error().what),
                 "put the file back, or resume from a checkpoint at the beginning of a round"};
  const std::size_t end = text->find('\n');
  if (end == std::string::npos) return damaged(path);
  const auto first = parse_ordered_json_object(std::string_view(*text).substr(0, end), path.string());
  const std::string_view lines = std::string_view(*text).substr(end + 1);
  if (!first || first->value("checksum", Line()) != checksum_words(lines)) return damaged(path);
  try {
    Round round{first->at("round").get<std::int64_t>() - 1, {}, first->value("judged", true)};
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t stop = lines.find('\n', begin);
      round.answers.push_back(rollout_of(Line::parse(lines.substr(begin, stop - begin))));
      begin = stop + 1;
    }
    return round;
  } catch (const nlohmann::json::exception&) {
    return damaged(path);
  }
}

}  // namespace muster::train

#include "runs/run_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clean_text.hpp"
#include "base/count_of.hpp"
#include "base/text.hpp"
#include "json/json_text.hpp"
#include "system/files.hpp"

namespace muster::runs {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::set<std::int64_t> rounds_in(const fs::path& folder) {
  std::set<std::int64_t> rounds;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    std::int64_t number = 0;
    const std::string name = entry.path().filename().string();
    if (std::sscanf(name.c_str(), "round-%ld.jsonl", &number) == 1 && name.ends_with(".jsonl")) rounds.insert(number);
  }
  return rounds;
}

fs::path path_of(const fs::path& folder, std::int64_t round) { return folder / fmt::format("round-{:06}.jsonl", round); }

// Answers are written down before they are judged where that is done beside the training on the round before.
bool is_judged(const std::string& text) {
  const auto first = parse_ordered_json_object(text.substr(0, text.find('\n')), "the first line");
  return !first || first->value("judged", Json(true)) != false;
}

std::int64_t newest_judged(const fs::path& folder, const std::set<std::int64_t>& rounds) {
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round)
    if (const auto text = read_file(path_of(folder, *round)); text && is_judged(*text)) return *round;
  return *rounds.rbegin();
}

std::optional<double> number_of(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found == line.end() || !found->is_number() ? std::nullopt : std::optional(found->get<double>());
}

std::string text_of(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found == line.end() || !found->is_string() ? std::string() : found->get<std::string>();
}

// On one line, however the text is written.
std::string in_a_line(const std::string& text) {
  constexpr std::size_t most = 160;
  std::string line = printable_lines(text);
  std::string found;
  for (const char byte : line) byte == '\n' ? found += "⏎ " : found += byte;
  if (found.size() <= most) return found;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(found[end]) & 0xc0u) == 0x80u) --end;
  return found.substr(0, end) + "…";
}

std::span<const SampledPrompt> first_of(const SampledRound& round, std::size_t prompts) {
  return std::span(round.prompts).first(std::min(prompts, round.prompts.size()));
}

}  // namespace

Result<SampledRound> read_samples(const store::RunFolder& run, std::optional<std::int64_t> round) {
  const fs::path folder = run.path() / "rollouts";
  const std::set<std::int64_t> rounds = rounds_in(folder);
  if (rounds.empty())
    return Error{Error::Kind::bad_input, fmt::format("{} has no sampled answers", run.path().string()),
                 "they come with training.algorithm=grpo, rloo or ppo"};
  SampledRound found;
  found.round = round ? *round : newest_judged(folder, rounds);
  if (!rounds.contains(found.round))
    return Error{Error::Kind::bad_input, fmt::format("{} has no round {}", run.path().string(), found.round),
                 fmt::format("it has rounds {} to {}", *rounds.begin(), *rounds.rbegin())};
  const auto text = read_file(path_of(folder, found.round));
  if (!text) return text.error();
  found.is_judged = is_judged(*text);
  double sum = 0;
  std::int64_t judged = 0, last = -1;
  for (const std::string& line : split(*text, '\n')) {
    const auto answer = parse_ordered_json_object(line, "an answer");
    if (!answer || !answer->contains("question")) continue;
    const auto prompt = static_cast<std::int64_t>(number_of(*answer, "prompt").value_or(0));
    if (found.prompts.empty() || prompt != last) found.prompts.push_back({text_of(*answer, "question"), {}});
    last = prompt;
    ++found.answers;
    const auto reward = number_of(*answer, "reward");
    if (reward) {
      sum += *reward;
      ++judged;
    }
    found.prompts.back().answers.push_back({text_of(*answer, "answer"), reward,
                                            number_of(*answer, "advantage").value_or(0),
                                            answer->value("ended", Json(false)) == true});
  }
  if (judged > 0) found.reward = sum / static_cast<double>(judged);
  for (SampledPrompt& prompt : found.prompts)
    std::ranges::stable_sort(prompt.answers, std::greater(), &SampledAnswer::advantage);
  return found;
}

std::string samples_text(const SampledRound& round, std::size_t prompts) {
  std::string text = fmt::format("round {}: {} to {}{}\n", round.round, count_of(round.answers, "answer"),
                                 count_of(std::ssize(round.prompts), "prompt"),
                                 !round.is_judged ? ", not judged yet"
                                 : round.reward   ? fmt::format(", mean reward {:.3f}", *round.reward)
                                                  : "");
  text += "  reward  advantage  answer\n";
  for (const SampledPrompt& prompt : first_of(round, prompts)) {
    text += in_a_line(prompt.prompt) + "\n";
    for (const SampledAnswer& answer : prompt.answers)
      text += fmt::format("{:>8}  {:>+9.3f}  {}{}\n", answer.reward ? fmt::format("{:.3f}", *answer.reward) : "unknown",
                          answer.advantage, in_a_line(answer.answer), answer.ended ? "" : " (cut off)");
  }
  if (prompts < round.prompts.size())
    text += fmt::format("{} more: --samples N shows N\n", count_of(std::ssize(round.prompts) - static_cast<std::int64_t>(prompts), "prompt"));
  return text;
}

std::string samples_json(const SampledRound& round, std::size_t prompts) {
  Json asked = Json::array();
  for (const SampledPrompt& prompt : first_of(round, prompts)) {
    Json answers = Json::array();
    for (const SampledAnswer& answer : prompt.answers)
      answers.push_back({{"answer", answer.answer},
                         {"reward", answer.reward ? Json(*answer.reward) : Json(nullptr)},
                         {"advantage", answer.advantage},
                         {"ended", answer.ended}});
    asked.push_back({{"prompt", prompt.prompt}, {"answers", std::move(answers)}});
  }
  const Json whole{{"round", round.round},
                   {"answers", round.answers},
                   {"judged", round.is_judged},
                   {"reward", round.reward ? Json(*round.reward) : Json(nullptr)},
                   {"prompts", std::move(asked)}};
  return whole.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace muster::runs

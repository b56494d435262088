#include "reward/program_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/duration.hpp"
#include "base/one_line.hpp"
#include "base/text.hpp"
#include "json/fields.hpp"
#include "reward/program_command.hpp"

namespace muster::reward {
namespace {

constexpr std::size_t longest_answer_line = std::size_t{1} << 20;

Result<std::string> request_line(std::int64_t id, const Answered& answered, std::size_t left) {
  const Question& question = *answered.question;
  Json line = Json::object();
  line["id"] = id;
  line["prompt"] = question.prompt;
  line["completion"] = answered.completion;
  line["answer"] = to_json(question.answer);
  line["tokens"] = answered.tokens;
  line["ids"] = std::vector<std::int32_t>(answered.ids.begin(), answered.ids.end());
  line["finish"] = answered.ended ? "stop" : "length";
  line["row"] = nullptr;
  if (!question.row.empty()) {
    auto row = parse_ordered_json_object(question.row, "the row of a prompt");
    if (!row) return row.error();
    line["row"] = std::move(*row);
  }
  line["left"] = left;
  return as_line(line) + "\n";
}

const std::string answers_remedy =
    R"(it must answer each line {"id": …, …} by one line {"id": the same, "reward": a number, or null if it cannot tell}; )"
    "whatever else it has to say belongs on its standard error";

}  // namespace

ProgramPart::ProgramPart(const spec::RewardOptions& options, Report report, std::stop_token stop)
    : command_(command_of(options.program)),
      name_(shown_command(options.program)),
      patience_(std::chrono::milliseconds(std::llround(std::max(1.0, options.program_seconds * 1000)))),
      restarts_(options.program_restarts),
      batch_(static_cast<std::size_t>(std::max<std::int64_t>(1, options.program_batch))),
      report_(std::move(report)),
      stop_(std::move(stop)) {}

Result<std::vector<std::optional<double>>> ProgramPart::judge(std::span<const Answered> answers) {
  Values values(answers.size());
  for (std::size_t begin = 0; begin < answers.size(); begin += batch_) {
    const std::size_t size = std::min(batch_, answers.size() - begin);
    const auto judged = judge_batch(answers.subspan(begin, size), std::span(values).subspan(begin, size));
    if (!judged) return judged.error();
  }
  return values;
}

// Answers that it gave before a fault stand; only the others are asked for again.
Result<void> ProgramPart::judge_batch(std::span<const Answered> answers, std::span<std::optional<double>> values) {
  Ids ids;
  for (std::size_t i = 0; i < answers.size(); ++i) ids.emplace(next_id_++, i);
  for (std::int64_t restart = 0;; ++restart) {
    const auto fault = ask(answers, ids, values);
    if (!fault) return fault.error();
    if (!*fault) return {};
    if (stop_.stop_requested()) return stopped_judging();
    program_->kill();
    program_.reset();
    if (restart == restarts_)
      return Error{Error::Kind::failed,
                   fmt::format("{} {}; it was started {}", name_, (*fault)->what,
                               restart == 0 ? "once" : fmt::format("{} times for this batch", restart + 1)),
                   (*fault)->remedy};
    report_(fmt::format("the reward program {} {}; it is started again ({} of {})", name_, (*fault)->what, restart + 1,
                        restarts_));
  }
}

Result<std::optional<ProgramPart::Fault>> ProgramPart::ask(std::span<const Answered> answers, Ids& ids,
                                                           std::span<std::optional<double>> values) {
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  const std::size_t asked = ids.size();
  std::string unsent;
  for (std::size_t left = asked; const auto& [id, place] : ids) {
    auto line = request_line(id, answers[place], --left);
    if (!line) return line.error();
    unsent += *line;
  }
  if (!program_) {
    auto started = Coprocess::start(command_, name_, longest_answer_line);
    if (!started) return started.error();
    program_.emplace(std::move(*started));
  }
  while (!ids.empty()) {
    auto heard = program_->converse(unsent, deadline, stop_);
    if (!heard) return std::optional(Fault{"wrote more than 1 MiB without a line's end", answers_remedy});
    if (std::holds_alternative<Coprocess::Late>(*heard))
      return std::optional(late(ids.size(), asked, program_->is_deaf() && !unsent.empty()));
    if (std::holds_alternative<Coprocess::NoMoreOutput>(*heard)) return std::optional(gone(ids.size(), asked));
    if (auto fault = take(std::get<std::string>(*heard), ids, values)) return fault;
  }
  if (!unsent.empty()) return std::optional(Fault{"answered lines before it could have read them", answers_remedy});
  return std::optional<Fault>();
}

// What one line says, if it is an answer that was asked for.
std::optional<ProgramPart::Fault> ProgramPart::take(const std::string& line, Ids& ids,
                                                    std::span<std::optional<double>> values) const {
  const auto wrong = [&](const std::string& what) { return Fault{what, answers_remedy}; };
  const std::string shown_line = on_one_line(line, 120);
  if (trim(line).empty()) return std::nullopt;
  const auto json = parse_json_object(line, "its line");
  if (!json && (line.find("NaN") != std::string::npos || line.find("Infinity") != std::string::npos))
    return wrong(fmt::format("gave a reward that is not a number: {}", shown_line));
  if (!json) return wrong(fmt::format("wrote what is not a JSON object: {}", shown_line));
  const auto id = json->find("id"), reward = json->find("reward");
  if (id == json->end() || reward == json->end())
    return wrong(fmt::format("left out \"{}\": {}", id == json->end() ? "id" : "reward", shown_line));
  std::int64_t number = 0;
  if (read_json(*id, number)) return wrong(fmt::format("answered an id that is {}", shown(*id)));
  const auto open = ids.find(number);
  if (open == ids.end())
    return wrong(fmt::format("answered the id {}, which it was not asked about, or a second time", number));
  if (!reward->is_null() && !reward->is_number())
    return wrong(fmt::format("gave a reward that is {}", shown(*reward)));
  if (reward->is_number()) {
    const auto value = reward->get<double>();
    if (!std::isfinite(value)) return wrong(fmt::format("gave a reward that is not a number: {}", shown_line));
    values[open->second] = value;
  }
  ids.erase(open);
  return std::nullopt;
}

ProgramPart::Fault ProgramPart::late(std::size_t open, std::size_t asked, bool partly_unread) const {
  const std::string progress = fmt::format("{} of {} answers", asked - open, asked);
  if (partly_unread)
    return {fmt::format("closed its standard input after {}", progress), "let it read lines until its input ends"};
  return {fmt::format("gave {} within {}", progress, to_string(patience_)),
          "let it answer without waiting for the end of its input, and without holding lines back (in Python "
          "print(…, flush=True)); or give it more time: reward.program_seconds"};
}

ProgramPart::Fault ProgramPart::gone(std::size_t open, std::size_t asked) const {
  const std::string progress = fmt::format("after {} of {} answers", asked - open, asked);
  if (const auto end = program_->wait_for_end(std::chrono::milliseconds(3000)))
    return {fmt::format("ended {} ({})", progress, describe(*end, patience_)),
            "its standard error says why; let it read lines until its input ends"};
  return {fmt::format("closed its standard output {}", progress), "let it keep its output open until its input ends"};
}

}  // namespace muster::reward

#include "sweep/ask_tell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <ostream>

#include "base/text.hpp"
#include "json/json_text.hpp"
#include "sweep/best_trials.hpp"
#include "sweep/sweep_end.hpp"

namespace muster::sweep {

using json = nlohmann::ordered_json;

namespace {

constexpr std::string_view known_orders =
    "orders are {\"ask\": true}, {\"tell\": \"NAME.r.0\", \"score\": 0.5, \"cost_seconds\": 12}, {\"tell\": "
    "\"NAME.r.0\", \"failed\": true}, {\"report\": \"NAME.r.0\", \"step\": 100, \"score\": 0.5} and {\"best\": 3}";

json refusal(std::string what, std::string remedy) { return {{"error", std::move(what)}, {"try", std::move(remedy)}}; }

std::optional<double> number(const json& order, const char* key) {
  const auto found = order.find(key);
  if (found == order.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

bool is_true(const json& order, const char* key) {
  const auto found = order.find(key);
  return found != order.end() && found->is_boolean() && found->get<bool>();
}

// The running trial that an order names under a key; a refusal if there is none.
struct Named {
  std::optional<RunningTrial> trial;
  json refused;
};

Named running_trial(const TrialList& trials, const json& order, const char* key) {
  const json& written = order.at(key);
  const std::string id = written.is_string() ? written.get<std::string>() : "";
  for (const RunningTrial& running : trials.running)
    if (running.trial == id && !running.elsewhere) return {running, {}};
  std::vector<std::string> known;
  for (const RunningTrial& running : trials.running)
    if (!running.elsewhere) known.push_back(running.trial);
  return {std::nullopt, refusal(fmt::format("no trial {} is running", shown(written)),
                                known.empty() ? "ask for one first" : fmt::format("running: {}", join(known, ", ")))};
}

}  // namespace

Result<std::string> AskTell::answer(std::string_view line) {
  const auto order = parse_ordered_json_object(line, "the line");
  Result<json> reply = json();
  if (!order)
    reply = refusal(order.error().what, std::string(known_orders));
  else if (is_true(*order, "ask"))
    reply = ask();
  else if (order->contains("tell"))
    reply = tell(*order);
  else if (order->contains("report"))
    reply = report(*order);
  else if (order->contains("best"))
    reply = best(*order);
  else
    reply = refusal("no order that is known", std::string(known_orders));
  if (!reply) return reply.error();
  return reply->dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<json> AskTell::ask() {
  std::optional<std::string> end;
  std::optional<double> expected;
  const auto choose = [&](const TrialList& trials) -> std::optional<Suggestion> {
    end = reason_to_end(spec_.limits, trials.finished, trials.running.size(), seconds_());
    if (end) return std::nullopt;
    auto suggestion = suggest_next(spec_, trials);
    if (!suggestion) end = "nothing is left to try";
    if (suggestion) expected = suggestion->cost_seconds;
    return suggestion;
  };
  const auto begun = ledger_.begin(choose);
  if (!begun) return begun.error();
  if (!*begun) return json{{"end", end.value_or("nothing is left to try")}};
  const RunningTrial& trial = **begun;
  begun_[trial.trial] = seconds_();
  json reply{{"trial", trial.trial}, {"parameters", to_json(trial.settings)}};
  if (expected) reply["expected_seconds"] = *expected;
  return reply;
}

Result<json> AskTell::tell(const json& order) {
  const auto trials = ledger_.trials();
  if (!trials) return trials.error();
  Named named = running_trial(*trials, order, "tell");
  if (!named.trial) return named.refused;
  Observation observation{named.trial->trial, named.trial->settings};
  if (!is_true(order, "failed")) observation.score = number(order, "score");
  if (!is_true(order, "failed") && !observation.score)
    return refusal("a trial without a score", "give \"score\" a number, or say \"failed\": true");
  const auto begun = begun_.find(observation.trial);
  const double own_time = begun == begun_.end() ? 0 : seconds_() - begun->second;
  observation.cost_seconds = std::max(0.0, number(order, "cost_seconds").value_or(own_time));
  observation.stopped_early = stopped_.contains(observation.trial);
  if (const auto reason = order.find("reason"); reason != order.end() && reason->is_string())
    observation.reason = reason->get<std::string>();
  if (auto done = ledger_.finish(observation); !done) return done.error();
  return json{{"told", observation.trial}};
}

Result<json> AskTell::report(const json& order) {
  const auto trials = ledger_.trials();
  if (!trials) return trials.error();
  Named named = running_trial(*trials, order, "report");
  if (!named.trial) return named.refused;
  const auto step = number(order, "step"), score = number(order, "score");
  if (!step || *step < 0 || *step > 0x1p53 || !score)
    return refusal("a report without a step or a score", std::string(known_orders));
  const auto reports = ledger_.report({named.trial->trial, static_cast<std::int64_t>(*step), *score});
  if (!reports) return reports.error();
  const bool goes_on =
      !spec_.early_stop || judge(*spec_.early_stop, spec_.goal, *reports, named.trial->trial) == Verdict::go_on;
  if (!goes_on) stopped_.insert(named.trial->trial);
  return json{{"go_on", goes_on}};
}

Result<json> AskTell::best(const json& order) {
  const auto trials = ledger_.trials();
  if (!trials) return trials.error();
  const double wanted = number(order, "best").value_or(1);
  if (!(wanted >= 1)) return refusal("fewer than one trial", std::string(known_orders));
  json list = json::array();
  for (const Observation& observation :
       best_trials(trials->finished, spec_.goal, static_cast<std::size_t>(std::min(wanted, 1e9))))
    list.push_back(to_json(observation));
  return json{{"best", std::move(list)}};
}

Result<void> serve_ask_tell(AskTell& session, std::istream& in, std::ostream& out) {
  std::string line;
  while (std::getline(in, line)) {
    if (trim(line).empty()) continue;
    const auto reply = session.answer(line);
    if (!reply) return reply.error();
    out << *reply << std::endl;
  }
  return {};
}

}  // namespace muster::sweep

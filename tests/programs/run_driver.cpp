// Makes and fills run folders for the tests in Python: one order a line on standard input, as JSON, and for each a line
// on standard output, {"ok": …} or {"error": …}. It holds the run until its input ends.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "store/run_recorder.hpp"

namespace {

using json = nlohmann::ordered_json;
using namespace muster;

struct Driver {
  std::optional<store::HeldRun> held;
  std::optional<store::RunRecorder> recorder;

  static store::Moment now() { return std::chrono::system_clock::now(); }
  static json told(const Result<void>& result) {
    return result ? json{{"ok", true}} : json{{"error", to_string(result.error())}};
  }

  json take(Result<store::HeldRun> run) {
    if (!run) return {{"error", to_string(run.error())}};
    held.emplace(std::move(*run));
    return {{"ok", held->folder.path().string()}};
  }

  json begin(const json& order) {
    auto begun = store::RunRecorder::begin(held->folder, order.at("columns"), now(), order.value("after", 0));
    if (!begun) return {{"error", to_string(begun.error())}};
    recorder.emplace(std::move(*begun));
    return {{"ok", recorder->last_step().value_or(0)}};
  }

  json add(const json& order, bool new_step) {
    std::vector<store::Measured> measured;
    for (const auto& [column, value] : order.at("values").items()) measured.push_back({column, value.get<double>()});
    const std::int64_t step = order.at("step");
    return told(new_step ? recorder->add_step(now(), step, measured) : recorder->add_to_step(now(), step, measured));
  }

  json finish(const json& order) {
    store::RunResult result;
    const std::string status = order.value("status", "done");
    result.status = status == "done"     ? store::Ending::done
                    : status == "failed" ? store::Ending::failed
                                         : store::Ending::interrupted;
    result.steps = recorder->last_step().value_or(0);
    result.seconds = order.value("seconds", 1.0);
    if (order.contains("final_loss")) result.final_loss = order.at("final_loss");
    if (order.contains("exact_match")) result.exact_match = order.at("exact_match");
    if (order.contains("error")) result.error = order.at("error");
    return told(recorder->finish(result));
  }

  json answer(const json& order) {
    const std::string what = order.at("do");
    if (what == "create")
      return take(
          store::RunFolder::create(order.at("output").get<std::string>(), order.at("name").get<std::string>(), now()));
    if (what == "hold")
      return take(
          store::RunFolder::open(order.at("path").get<std::string>()).value().hold(std::chrono::milliseconds(0)));
    if (what == "spec") return told(held->folder.write_spec(order.at("text").get<std::string>()));
    if (what == "plan") return told(held->folder.write_plan(order.at("text").get<std::string>()));
    if (what == "begin") return begin(order);
    if (what == "step") return add(order, true);
    if (what == "fill") return add(order, false);
    if (what == "event")
      return told(recorder->add_event(now(), order.at("event").get<std::string>(), std::nullopt, order.at("fields")));
    if (what == "back") return told(recorder->go_back_to(now(), order.at("step")));
    return finish(order);
  }
};

}  // namespace

int main() {
  Driver driver;
  for (std::string line; std::getline(std::cin, line);)
    fmt::print("{}\n", driver.answer(json::parse(line)).dump()), std::fflush(stdout);
}

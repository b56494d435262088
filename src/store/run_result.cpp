#include "store/run_result.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "json/json_text.hpp"

namespace muster::store {
namespace {

using nlohmann::json;
constexpr std::array endings{Ending::done, Ending::failed, Ending::interrupted};

template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

class ResultReader {
 public:
  ResultReader(const json& object, std::string_view source) : object_(object), source_(source) {}

  Result<RunResult> read() {
    RunResult result;
    const json status = value("status");
    bool known = false;
    for (const Ending ending : endings)
      if (status == name(ending)) {
        result.status = ending;
        known = true;
      }
    if (!known) note("status", "done, failed or interrupted", status);
    result.steps = count("steps");
    result.restarts = count("restarts");
    result.final_loss = number("final_loss");
    result.eval_loss = number("eval_loss");
    result.exact_match = number("exact_match");
    result.seconds = number("seconds").value_or(0);
    if (const json error = value("error"); error.is_string()) result.error = error.get<std::string>();
    if (problem_) return *problem_;
    return result;
  }

 private:
  json value(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? json() : *found;
  }

  std::optional<double> number(const char* key) {
    const json found = value(key);
    if (found.is_number()) return found.get<double>();
    if (!found.is_null()) note(key, "a number or null", found);
    return std::nullopt;
  }

  std::int64_t count(const char* key) {
    const json found = value(key);
    if (found.is_number_integer()) return found.get<std::int64_t>();
    if (!found.is_null()) note(key, "a whole number", found);
    return 0;
  }

  void note(const char* key, const char* accepted, const json& seen) {
    if (!problem_)
      problem_ = Error{Error::Kind::bad_input,
                       fmt::format("{}: {} is {}, not {}", source_, key, shown(seen), accepted), ""};
  }

  const json& object_;
  std::string_view source_;
  std::optional<Error> problem_;
};

}  // namespace

std::string_view name(Ending ending) {
  switch (ending) {
    case Ending::done:
      return "done";
    case Ending::failed:
      return "failed";
    case Ending::interrupted:
      return "interrupted";
  }
  return "";
}

std::string result_json(const RunResult& result) {
  const nlohmann::ordered_json json{{"status", name(result.status)},
                                    {"steps", result.steps},
                                    {"final_loss", or_null(result.final_loss)},
                                    {"eval_loss", or_null(result.eval_loss)},
                                    {"exact_match", or_null(result.exact_match)},
                                    {"seconds", result.seconds},
                                    {"restarts", result.restarts},
                                    {"error", or_null(result.error)}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<RunResult> parse_result(std::string_view text, std::string_view source) {
  const auto object = parse_json_object(text, source);
  if (!object) return object.error();
  return ResultReader(*object, source).read();
}

}  // namespace muster::store

#include "store/run_result.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "json/json_text.hpp"
#include "json/member_reader.hpp"

namespace muster::store {
namespace {

constexpr std::array endings{Ending::done, Ending::failed, Ending::interrupted};

template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

Ending read_ending(MemberReader& reader) {
  const auto status = find_text(reader.object(), "status");
  for (const Ending ending : endings)
    if (status == name(ending)) return ending;
  reader.note("status", "done, failed or interrupted");
  return Ending::failed;
}

std::optional<double> read_number(MemberReader& reader, const char* key) {
  if (!reader.has(key)) return std::nullopt;
  if (const auto* found = find_member(reader.object(), key); found->is_number()) return found->get<double>();
  reader.note(key, "a number or null");
  return std::nullopt;
}

std::int64_t read_count(MemberReader& reader, const char* key) { return reader.has(key) ? reader.whole(key) : 0; }

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
  MemberReader reader(*object);
  RunResult result;
  result.status = read_ending(reader);
  result.steps = read_count(reader, "steps");
  result.restarts = read_count(reader, "restarts");
  result.final_loss = read_number(reader, "final_loss");
  result.eval_loss = read_number(reader, "eval_loss");
  result.exact_match = read_number(reader, "exact_match");
  result.seconds = read_number(reader, "seconds").value_or(0);
  result.error = find_text(*object, "error");
  if (const auto& problem = reader.problem())
    return Error{Error::Kind::bad_input,
                 fmt::format("{}: {} is {}, not {}", source, problem->key,
                             problem->seen == nullptr ? "null" : shown(*problem->seen), problem->wanted),
                 ""};
  return result;
}

}  // namespace muster::store

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "json/member_reader.hpp"
#include "launch/failure.hpp"
#include "launch/keeper/signal_name.hpp"

namespace muster::launch {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;
using Time = std::chrono::system_clock::time_point;

constexpr std::array<std::pair<FailureKind, std::string_view>, 7> kind_words{{
    {FailureKind::exit_code, "exit_code"},
    {FailureKind::signal, "signal"},
    {FailureKind::host_memory, "host_memory"},
    {FailureKind::gpu_memory, "gpu_memory"},
    {FailureKind::communication, "communication"},
    {FailureKind::import_error, "import_error"},
    {FailureKind::not_started, "not_started"},
}};

// A rank may write anything; what is not UTF-8 is replaced.
std::string dump_utf8(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// "2023-11-14T22:13:20.500Z"
std::string to_iso(Time time) {
  const auto since = std::chrono::floor<milliseconds>(time.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(seconds.count())),
                     (since - seconds).count());
}

// A file too long to be sent on goes as its message and traceback, in torch's form.
std::string carried_file(const ErrorFile& file) {
  constexpr std::size_t longest = std::size_t{1} << 20;
  if (!file.json.empty() && file.json.size() <= longest) return file.json;
  Json extra = Json::object();
  if (file.traceback) extra["py_callstack"] = *file.traceback;
  if (file.timestamp) extra["timestamp"] = fmt::format("{}", *file.timestamp);
  return dump_utf8(Json{{"message", {{"message", file.message}, {"extraInfo", extra}}}});
}

Json as_json(const WorkerFailure& failure) {
  const auto& file = failure.error_file;
  const auto name = failure.end.signal ? signal_name(*failure.end.signal) : std::nullopt;
  return Json{
      {"host", failure.host},
      {"rank", failure.rank},
      {"local_rank", failure.local_rank},
      {"pid", failure.pid},
      {"exit_code", or_null(failure.end.exit_code)},
      {"signal", or_null(failure.end.signal)},
      {"signal_name", or_null(name)},
      {"kind", to_word(failure.kind)},
      {"explanation", failure.explanation},
      {"time", to_iso(failure.time)},
      {"error_file", file ? Json(file->path.string()) : Json(nullptr)},
      {"message", file ? Json(file->message) : Json(nullptr)},
      {"last_lines", failure.last_lines},
  };
}

}  // namespace

std::string_view to_word(FailureKind kind) {
  return std::ranges::find(kind_words, kind, &std::pair<FailureKind, std::string_view>::first)->second;
}

std::string to_json(const FailureReport& report) {
  if (report.failures.empty()) throw std::logic_error("a failure report without a failure");
  Json failures = Json::array();
  for (const WorkerFailure& failure : report.failures) failures.push_back(as_json(failure));
  const auto folder = report.log_folder ? std::optional(report.log_folder->string()) : std::nullopt;
  return dump_utf8(Json{{"entry", report.entry},
                   {"root_cause", failures.front()},
                   {"failures", failures},
                   {"log_folder", or_null(folder)}});
}

std::string to_json(const WorkerFailure& failure) {
  Json json = as_json(failure);
  json["timed_out"] = failure.end.timed_out;
  json["out_of_memory_kill"] = failure.out_of_memory_kill;
  json["not_started"] = or_null(failure.not_started);
  json["time_ms"] = std::chrono::floor<milliseconds>(failure.time.time_since_epoch()).count();
  json["error_file_content"] = failure.error_file ? Json(carried_file(*failure.error_file)) : Json(nullptr);
  return dump_utf8(json);
}

namespace {

FailureKind read_kind(MemberReader& reader) {
  const std::string word = reader.text("kind");
  const auto* found = std::ranges::find(kind_words, word, &std::pair<FailureKind, std::string_view>::second);
  if (found != kind_words.end()) return found->first;
  reader.note("kind", "a kind of failure");
  return FailureKind::exit_code;
}

std::optional<int> int_or_none(MemberReader& reader, const char* key) {
  return reader.has(key) ? std::optional(reader.whole_as<int>(key)) : std::nullopt;
}

std::optional<std::string> text_or_none(MemberReader& reader, const char* key) {
  return reader.has(key) ? std::optional(reader.text(key)) : std::nullopt;
}

}  // namespace

Result<WorkerFailure> failure_from_json(std::string_view text) {
  const auto foreign = [](std::string what) { return Error{Error::Kind::failed, std::move(what), ""}; };
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return foreign("the account of a failure is not a JSON object");
  WorkerFailure failure;
  MemberReader reader(json);
  failure.host = reader.text("host");
  failure.rank = reader.whole_as<int>("rank");
  failure.local_rank = reader.whole_as<int>("local_rank");
  failure.pid = reader.whole_as<pid_t>("pid");
  failure.end.exit_code = int_or_none(reader, "exit_code");
  failure.end.signal = int_or_none(reader, "signal");
  failure.end.timed_out = reader.truth("timed_out");
  failure.kind = read_kind(reader);
  failure.explanation = reader.text("explanation");
  failure.last_lines = reader.texts("last_lines");
  failure.out_of_memory_kill = reader.truth("out_of_memory_kill");
  failure.not_started = text_or_none(reader, "not_started");
  constexpr std::int64_t far_future = std::int64_t{1} << 42;  // some 139 years after 1970
  const std::int64_t time_ms = reader.whole("time_ms", 0, far_future);
  const auto error_file = text_or_none(reader, "error_file");
  auto content = text_or_none(reader, "error_file_content");
  if (const auto& problem = reader.problem())
    return foreign(fmt::format("the account of a failure has no usable \"{}\"", problem->key));
  failure.time = Time(milliseconds(time_ms));
  if (error_file && content) failure.error_file = parse_error_file(*error_file, std::move(*content));
  return failure;
}

}  // namespace muster::launch

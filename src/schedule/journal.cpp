#include "schedule/journal.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>

namespace muster::schedule {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view how_names[] = {"exited", "killed", "out_of_memory"};

// ---- writing ----

ordered_json ids(const std::vector<JobId>& list) {
  ordered_json out = ordered_json::array();
  for (const JobId& id : list) out.push_back(id.text);
  return out;
}

// Only what differs from a plain job: a journal of many jobs stays small.
ordered_json to_json(const Job& job) {
  const Job plain;
  ordered_json out{{"id", job.id.text}, {"gpus", job.gpus.minimum}};
  if (job.gpus.maximum) out["gpus_most"] = *job.gpus.maximum;
  if (!job.after.empty()) out["after"] = ids(job.after);
  if (!job.after_ok.empty()) out["after_ok"] = ids(job.after_ok);
  if (job.chain) out["chain"] = {{"name", job.chain->name}, {"round", job.chain->round}};
  if (job.priority != plain.priority) out["priority"] = job.priority;
  if (job.retries != plain.retries) out["retries"] = job.retries;
  if (job.timeout) out["timeout_ms"] = job.timeout->count();
  if (job.heartbeat) out["heartbeat_ms"] = job.heartbeat->count();
  if (job.prediction) out["prediction_ms"] = job.prediction->count();
  if (!job.label.empty()) out["label"] = job.label;
  if (!job.kind.empty()) out["kind"] = job.kind;
  return out;
}

struct Writer {
  ordered_json& out;

  void operator()(const Rules& rules) {
    out["event"] = "rules";
    out["ageing_ms"] = rules.ageing.count();
    out["without_gpus"] = rules.without_gpus;
  }
  void operator()(const GpuFound& found) {
    out["event"] = "gpu_found";
    out["name"] = found.name;
  }
  void operator()(const GpuLost& lost) {
    out["event"] = "gpu_lost";
    out["gpu"] = number(lost.gpu);
    out["reason"] = lost.reason;
  }
  void operator()(const GpuHeld& held) {
    out["event"] = "gpu_held";
    out["gpu"] = number(held.gpu);
    out["holder"] = held.holder;
  }
  void operator()(const GpuReturned& returned) {
    out["event"] = "gpu_returned";
    out["gpu"] = number(returned.gpu);
  }
  void operator()(const Submitted& submitted) {
    out["event"] = "submitted";
    ordered_json& jobs = out["jobs"] = ordered_json::array();
    for (const Job& job : submitted.jobs) jobs.push_back(to_json(job));
  }
  void operator()(const Cancelled& cancelled) {
    out["event"] = "cancelled";
    out["job"] = cancelled.job.text;
  }
  void operator()(const StartFailed& failed) {
    out["event"] = "start_failed";
    out["job"] = failed.job.text;
    out["reason"] = failed.reason;
  }
  void operator()(const Heartbeat& heartbeat) {
    out["event"] = "heartbeat";
    out["job"] = heartbeat.job.text;
  }
  void operator()(const Ended& ended) {
    out["event"] = "ended";
    out["job"] = ended.job.text;
    out["how"] = how_names[static_cast<std::size_t>(ended.how)];
    out["code"] = ended.code;
  }
  void operator()(const Tick&) { out["event"] = "tick"; }
};

// ---- reading ----

// Takes values out of an object and remembers the first that is not what it should be.
class Fields {
 public:
  Fields(const json& object, std::string_view source) : object_(object), source_(source) {}

  std::string text(const char* key) {
    const json& found = value(key);
    if (found.is_string()) return found.get<std::string>();
    note(key, "a text");
    return "";
  }
  std::string text_or_none(const char* key) { return object_.contains(key) ? text(key) : ""; }

  std::int64_t whole(const char* key) {
    const json& found = value(key);
    if (found.is_number_integer() && !(found.is_number_unsigned() && found.get<std::uint64_t>() > INT64_MAX))
      return found.get<std::int64_t>();
    note(key, "a whole number");
    return 0;
  }
  int small(const char* key) {
    const std::int64_t found = whole(key);
    if (found < INT32_MIN || found > INT32_MAX) note(key, "a number of at most 32 bits");
    return static_cast<int>(found);
  }
  int small_or(const char* key, int otherwise) { return object_.contains(key) ? small(key) : otherwise; }

  std::optional<Duration> span(const char* key) {
    if (!object_.contains(key)) return std::nullopt;
    return Duration(whole(key));
  }

  const json& list(const char* key) {
    const json& found = value(key);
    if (!found.is_array()) note(key, "a list");
    return found.is_array() ? found : none_;
  }

  std::vector<JobId> ids(const char* key) {
    std::vector<JobId> out;
    if (!object_.contains(key)) return out;
    for (const json& id : list(key)) {
      if (!id.is_string()) note(key, "a list of ids");
      out.push_back({id.is_string() ? id.get<std::string>() : ""});
    }
    return out;
  }

  void note(const char* key, std::string_view accepted) {
    if (problem_) return;
    problem_ = Error{Error::Kind::bad_input, fmt::format("{}: \"{}\" is not {}", source_, key, accepted),
                     "the journal was damaged or written by another version"};
  }
  void adopt(const Fields& inner) {
    if (!problem_) problem_ = inner.problem_;
  }
  const std::optional<Error>& problem() const { return problem_; }
  const json& object() const { return object_; }
  std::string_view source() const { return source_; }

 private:
  const json& value(const char* key) const {
    if (!object_.is_object()) return none_;
    const auto found = object_.find(key);
    return found == object_.end() ? none_ : *found;
  }

  const json& object_;
  std::string_view source_;
  std::optional<Error> problem_;
  inline static const json none_;
};

Job read_job(Fields& fields) {
  Job job;
  job.id.text = fields.text("id");
  job.gpus.minimum = fields.small("gpus");
  if (fields.object().contains("gpus_most")) job.gpus.maximum = fields.small("gpus_most");
  job.after = fields.ids("after");
  job.after_ok = fields.ids("after_ok");
  if (fields.object().contains("chain")) {
    Fields chain(fields.object()["chain"], fields.source());
    job.chain = ChainPlace{chain.text("name"), chain.small("round")};
    fields.adopt(chain);
  }
  job.priority = fields.small_or("priority", 0);
  job.retries = fields.small_or("retries", 0);
  job.timeout = fields.span("timeout_ms");
  job.heartbeat = fields.span("heartbeat_ms");
  job.prediction = fields.span("prediction_ms");
  job.label = fields.text_or_none("label");
  job.kind = fields.text_or_none("kind");
  return job;
}

Happening read_submitted(Fields& fields) {
  Submitted submitted;
  for (const json& job : fields.list("jobs")) {
    Fields inner(job, fields.source());
    if (!job.is_object())
      inner.note("jobs", "a list of objects");
    else
      submitted.jobs.push_back(read_job(inner));
    fields.adopt(inner);
  }
  return submitted;
}

Happening read_ended(Fields& fields) {
  Ended ended{{fields.text("job")}, Ended::How::exited, fields.small("code")};
  const std::string how = fields.text("how");
  for (std::size_t i = 0; i < std::size(how_names); ++i) {
    if (how != how_names[i]) continue;
    ended.how = static_cast<Ended::How>(i);
    return ended;
  }
  fields.note("how", "exited, killed or out_of_memory");
  return ended;
}

Happening read_happening(Fields& fields) {
  const std::string event = fields.text("event");
  const auto gpu = [&] { return GpuNumber{fields.small("gpu")}; };
  const auto job = [&] { return JobId{fields.text("job")}; };
  if (event == "rules") return Rules{Duration(fields.whole("ageing_ms")), fields.small("without_gpus")};
  if (event == "gpu_found") return GpuFound{fields.text("name")};
  if (event == "gpu_lost") return GpuLost{gpu(), fields.text("reason")};
  if (event == "gpu_held") return GpuHeld{gpu(), fields.text("holder")};
  if (event == "gpu_returned") return GpuReturned{gpu()};
  if (event == "submitted") return read_submitted(fields);
  if (event == "cancelled") return Cancelled{job()};
  if (event == "start_failed") return StartFailed{job(), fields.text("reason")};
  if (event == "heartbeat") return Heartbeat{job()};
  if (event == "ended") return read_ended(fields);
  if (event == "tick") return Tick{};
  fields.note("event", "a kind of event that is known here");
  return Tick{};
}

}  // namespace

std::string to_line(const Event& event) {
  ordered_json out{{"time_ms", event.time.time_since_epoch().count()}};
  std::visit(Writer{out}, event.what);
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<Event> read_line(std::string_view line, std::string_view source) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object())
    return Error{Error::Kind::bad_input, fmt::format("{}: this is no JSON object", source),
                 "the journal was damaged or written by another version"};
  Fields fields(object, source);
  Event event{Time(Duration(fields.whole("time_ms"))), read_happening(fields)};
  if (fields.problem()) return *fields.problem();
  return event;
}

Result<Journal> read_journal(std::string_view text, std::string_view source) {
  Journal journal;
  for (int line = 1; journal.whole < text.size(); ++line) {
    const std::size_t end = text.find('\n', journal.whole);
    if (end == std::string_view::npos) break;
    auto event = read_line(text.substr(journal.whole, end - journal.whole), fmt::format("{}:{}", source, line));
    if (!event) return event.error();
    journal.events.push_back(std::move(*event));
    journal.whole = end + 1;
  }
  return journal;
}

Result<Scheduler> replay(std::span<const Event> events, ChooseGpus choose) {
  Scheduler scheduler(std::move(choose));
  for (std::size_t i = 0; i < events.size(); ++i)
    if (const auto decisions = scheduler.apply(events[i]); !decisions) {
      Error error = decisions.error();
      error.what = fmt::format("event {} of the journal cannot be: {}", i + 1, error.what);
      return error;
    }
  return scheduler;
}

}  // namespace muster::schedule

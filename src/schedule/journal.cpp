#include "schedule/journal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/crc32c.hpp"
#include "schedule/job_json.hpp"
#include "schedule/journal_fields.hpp"

namespace muster::schedule {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// ---- writing ----

constexpr std::string_view gpu_states[] = {"free", "taken", "held", "lost"};

ordered_json to_json(const std::vector<GpuLink>& links) {
  ordered_json out = ordered_json::array();
  for (const GpuLink& link : links)
    out.push_back({{"a", number(link.a)}, {"b", number(link.b)}, {"worth", link.worth}});
  return out;
}

ordered_json to_json(const GpuStatus& gpu) {
  ordered_json out{{"name", gpu.name},
                   {"state", gpu_states[static_cast<std::size_t>(gpu.state)]},
                   {"since_ms", gpu.since.time_since_epoch().count()}};
  if (!gpu.words.empty()) out["words"] = gpu.words;
  return out;
}

ordered_json to_json(const StartPause& pause) {
  return {{"until_ms", pause.until.time_since_epoch().count()}, {"reason", pause.reason}};
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
  void operator()(const Postponed& postponed) {
    out["event"] = "postponed";
    out["job"] = postponed.job.text;
    out["reason"] = postponed.reason;
    if (postponed.shortage == Shortage::gpus) out["short_of"] = "gpus";
  }
  void operator()(const Heartbeat& heartbeat) {
    out["event"] = "heartbeat";
    out["job"] = heartbeat.job.text;
    if (heartbeat.at) out["at_ms"] = heartbeat.at->time_since_epoch().count();
  }
  void operator()(const Ended& ended) {
    out["event"] = "ended";
    out["job"] = ended.job.text;
    out["how"] = name(ended.how);
    out["code"] = ended.code;
  }
  void operator()(const GpusLinked& linked) {
    out["event"] = "gpus_linked";
    out["links"] = to_json(linked.links);
  }
  void operator()(const Tick&) { out["event"] = "tick"; }
  void operator()(const Snapshot& snapshot) {
    out["event"] = "snapshot";
    out["ageing_ms"] = snapshot.rules.ageing.count();
    out["without_gpus"] = snapshot.rules.without_gpus;
    ordered_json& gpus = out["gpus"] = ordered_json::array();
    for (const GpuStatus& gpu : snapshot.gpus) gpus.push_back(to_json(gpu));
    out["links"] = to_json(snapshot.links);
    ordered_json& jobs = out["jobs"] = ordered_json::array();
    for (const JobRecord& job : snapshot.jobs) jobs.push_back(to_json(job));
    ordered_json& lengths = out["lengths"] = ordered_json::array();
    for (const DurationEstimates::Course& course : snapshot.lengths)
      lengths.push_back({{"name", course.name},
                         {"longest_now_ms", course.longest_now.count()},
                         {"longest_before_ms", course.longest_before.count()},
                         {"seen", course.seen},
                         {"step", static_cast<int>(course.step)}});
    if (snapshot.pauses.machine) out["pause"] = to_json(*snapshot.pauses.machine);
    if (snapshot.pauses.gpus) out["gpu_pause"] = to_json(*snapshot.pauses.gpus);
    if (snapshot.reserved) out["reserved"] = position(*snapshot.reserved);
  }
};

// ---- reading ----

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
  return Ended{{fields.text("job")}, read_how(fields, "how"), fields.small("code")};
}

std::vector<GpuLink> read_links(Fields& fields) {
  std::vector<GpuLink> links;
  for (const json& link : fields.list("links")) {
    Fields inner(link, fields.source());
    links.push_back({GpuNumber{inner.small("a")}, GpuNumber{inner.small("b")}, inner.small("worth")});
    fields.adopt(inner);
  }
  return links;
}

GpuStatus read_gpu(Fields& fields) {
  GpuStatus gpu{fields.text("name"),
                GpuState::free,
                fields.moment("since_ms").value_or(Time{}),
                fields.text_or_none("words"),
                {}};
  const std::string state = fields.text("state");
  const auto* known = std::ranges::find(gpu_states, state);
  if (known == std::end(gpu_states))
    fields.note("state", "free, taken, held or lost");
  else
    gpu.state = static_cast<GpuState>(known - std::begin(gpu_states));
  return gpu;
}

std::optional<StartPause> read_pause(Fields& fields, const char* key) {
  const auto found = fields.object().find(key);
  if (found == fields.object().end()) return std::nullopt;
  Fields inner(*found, fields.source());
  StartPause pause;
  if (found->is_object())
    pause = {inner.moment("until_ms").value_or(Time{}), inner.text("reason")};
  else
    inner.note(key, "an object");
  fields.adopt(inner);
  return pause;
}

Happening read_postponed(Fields& fields) {
  Postponed postponed{{fields.text("job")}, fields.text("reason")};
  const std::string what = fields.text_or_none("short_of");
  if (what == "gpus")
    postponed.shortage = Shortage::gpus;
  else if (!what.empty())
    fields.note("short_of", "gpus, or nothing");
  return postponed;
}

Happening read_snapshot(Fields& fields) {
  Snapshot snapshot;
  snapshot.rules = {Duration(fields.whole("ageing_ms")), fields.small("without_gpus")};
  const auto each = [&](const char* key, const auto& take) {
    for (const json& item : fields.list(key)) {
      Fields inner(item, fields.source());
      if (item.is_object())
        take(inner);
      else
        inner.note(key, "a list of objects");
      fields.adopt(inner);
    }
  };
  each("gpus", [&](Fields& inner) { snapshot.gpus.push_back(read_gpu(inner)); });
  snapshot.links = read_links(fields);
  each("jobs", [&](Fields& inner) { snapshot.jobs.push_back(read_record(inner)); });
  each("lengths", [&](Fields& inner) {
    snapshot.lengths.push_back({inner.text("name"), Duration(inner.whole("longest_now_ms")),
                                Duration(inner.whole("longest_before_ms")), inner.small("seen"),
                                LengthStep{inner.small("step")}});
  });
  snapshot.pauses = {read_pause(fields, "pause"), read_pause(fields, "gpu_pause")};
  if (fields.object().contains("reserved"))
    snapshot.reserved = JobIndex{static_cast<std::uint32_t>(fields.small("reserved"))};
  return snapshot;
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
  if (event == "postponed") return read_postponed(fields);
  if (event == "gpus_linked") return GpusLinked{read_links(fields)};
  if (event == "heartbeat") return Heartbeat{job(), fields.moment("at_ms")};
  if (event == "ended") return read_ended(fields);
  if (event == "tick") return Tick{};
  if (event == "snapshot") return read_snapshot(fields);
  fields.note("event", "a kind of event that is known here");
  return Tick{};
}

// Note [Checksums of lines]
// A line's last field is the checksum of everything before it: a flipped bit is found, wherever it is. Lines of earlier
// versions have none and are read as they are; so is a line whose checksum itself is malformed, because what precedes
// it then has to be complete JSON anyway.
constexpr std::string_view checksum_key = ",\"crc\":\"";
constexpr std::size_t checksum_length = checksum_key.size() + 8 + 2;  // eight digits, then "}

std::string checksum_of(std::string_view before) { return fmt::format("{}{:08x}\"}}", checksum_key, crc32c(before)); }

bool has_right_checksum(std::string_view line) {
  if (line.size() <= checksum_length) return true;
  const std::string_view before = line.substr(0, line.size() - checksum_length);
  const std::string_view end = line.substr(before.size());
  return !end.starts_with(checksum_key) || end == checksum_of(before);
}

}  // namespace

std::string to_line(const Event& event) {
  ordered_json out{{"time_ms", event.time.time_since_epoch().count()}};
  std::visit(Writer{out}, event.what);
  std::string line = out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  line.pop_back();  // the brace that closes the object
  return line + checksum_of(line);
}

Result<Event> read_line(std::string_view line, std::string_view source) {
  if (!has_right_checksum(line))
    return Error{Error::Kind::bad_input, fmt::format("{}: the line does not match its checksum", source),
                 "the journal was damaged"};
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object())
    return Error{Error::Kind::bad_input, fmt::format("{}: not a JSON object", source),
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

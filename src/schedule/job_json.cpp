#include "schedule/job_json.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "schedule/journal_fields.hpp"

namespace muster::schedule {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view how_names[] = {"exited", "killed", "out_of_memory"};
constexpr StopReason stop_reasons[] = {StopReason::cancelled, StopReason::timeout, StopReason::heartbeat,
                                       StopReason::gpu_lost};

ordered_json ids(const std::vector<JobId>& list) {
  ordered_json out = ordered_json::array();
  for (const JobId& id : list) out.push_back(id.text);
  return out;
}

void put(ordered_json& out, const char* key, const std::optional<Time>& moment) {
  if (moment) out[key] = moment->time_since_epoch().count();
}

void put(ordered_json& out, const char* key, const std::vector<GpuNumber>& gpus) {
  if (gpus.empty()) return;
  ordered_json& list = out[key] = ordered_json::array();
  for (const GpuNumber gpu : gpus) list.push_back(number(gpu));
}

std::vector<GpuNumber> read_gpus(Fields& fields, const char* key) {
  std::vector<GpuNumber> gpus;
  if (!fields.object().contains(key)) return gpus;
  for (const json& gpu : fields.list(key)) {
    const bool is_small = gpu.is_number_unsigned() && gpu.get<std::uint64_t>() <= most_gpus;
    if (!is_small) fields.note(key, "a list of GPUs");
    gpus.push_back(GpuNumber{is_small ? gpu.get<int>() : 0});
  }
  return gpus;
}

JobState read_state(Fields& fields) {
  const std::string text = fields.text("state");
  for (int state = 0; state <= static_cast<int>(JobState::cancelled); ++state)
    if (name(static_cast<JobState>(state)) == text) return static_cast<JobState>(state);
  fields.note("state", "a state of a job");
  return JobState::waiting;
}

}  // namespace

std::string_view name(HowEnded how) { return how_names[static_cast<std::size_t>(how)]; }

HowEnded read_how(Fields& fields, const char* key) {
  const std::string how = fields.text(key);
  const auto* known = std::ranges::find(how_names, how);
  if (known != std::end(how_names)) return static_cast<HowEnded>(known - std::begin(how_names));
  fields.note(key, "exited, killed or out_of_memory");
  return HowEnded::exited;
}

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

ordered_json to_json(const JobRecord& record) {
  ordered_json out = to_json(record.job);
  out["state"] = name(record.state);
  put(out, "submitted_ms", record.submitted);
  if (record.rank.left != 1) out["left"] = record.rank.left;
  if (record.lane != LengthStep::unknown) out["lane"] = static_cast<int>(record.lane);
  if (record.failures != 0) out["failures"] = record.failures;
  if (record.attempts != 0) out["attempts"] = record.attempts;
  if (record.postponed != 0) out["postponed"] = record.postponed;
  put(out, "avoided", record.avoided);
  put(out, "on", record.gpus);
  put(out, "started_ms", record.started);
  put(out, "last_sign_ms", record.last_sign);
  put(out, "expected_end_ms", record.expected_end);
  if (record.stop) out["stop"] = name(*record.stop);
  put(out, "ended_ms", record.ended);
  if (!record.reason.empty()) out["reason"] = record.reason;
  if (record.because) out["because"] = position(*record.because);
  if (record.last_end) {
    out["how"] = name(record.last_end->how);
    out["code"] = record.last_end->code;
  }
  return out;
}

JobRecord read_record(Fields& fields) {
  JobRecord record;
  record.job = read_job(fields);
  record.state = read_state(fields);
  record.submitted = fields.moment("submitted_ms").value_or(Time{});
  record.rank.left = fields.small_or("left", 1);
  record.lane = LengthStep{fields.small_or("lane", static_cast<int>(LengthStep::unknown))};
  record.failures = fields.small_or("failures", 0);
  record.attempts = fields.small_or("attempts", 0);
  record.postponed = fields.small_or("postponed", 0);
  record.avoided = read_gpus(fields, "avoided");
  record.gpus = read_gpus(fields, "on");
  record.started = fields.moment("started_ms");
  record.last_sign = fields.moment("last_sign_ms");
  record.expected_end = fields.moment("expected_end_ms");
  if (const std::string stop = fields.text_or_none("stop"); !stop.empty()) {
    const auto* known = std::ranges::find(stop_reasons, stop, [](StopReason reason) { return name(reason); });
    if (known == std::end(stop_reasons))
      fields.note("stop", "a reason to stop");
    else
      record.stop = *known;
  }
  record.ended = fields.moment("ended_ms");
  record.reason = fields.text_or_none("reason");
  if (fields.object().contains("because"))
    record.because = JobIndex{static_cast<std::uint32_t>(fields.small("because"))};
  if (fields.object().contains("how")) record.last_end = ProcessEnd{read_how(fields, "how"), fields.small("code")};
  return record;
}

Result<JobRecord> read_record(const json& object, std::string_view source) {
  Fields fields(object, source);
  if (!object.is_object()) fields.note("job", "an object");
  JobRecord record = object.is_object() ? read_record(fields) : JobRecord{};
  if (fields.problem()) return *fields.problem();
  return record;
}

}  // namespace muster::schedule

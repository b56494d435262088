#include <nlohmann/json.hpp>

#include "monitor/sample.hpp"
#include "json/json_text.hpp"
#include "store/timestamp.hpp"

namespace muster::monitor {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

template <class Value>
ordered_json known(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}
ordered_json known(const std::optional<ByteCount>& bytes) {
  return bytes ? ordered_json(bytes->value) : ordered_json(nullptr);
}
ordered_json known(const std::optional<Time>& time) {
  return time ? ordered_json(store::timestamp(*time)) : ordered_json(nullptr);
}

ordered_json to_json(const GpuHolder& holder) {
  return {{"pid", known(holder.pid)},
          {"user", known(holder.user)},
          {"command", known(holder.command)},
          {"since", known(holder.since)}};
}

ordered_json to_json(const GpuSample& gpu) {
  ordered_json users = ordered_json::array();
  for (const GpuUser& user : gpu.users)
    users.push_back({{"pid", user.pid}, {"user", known(user.user)}, {"memory", known(user.memory)}});
  return {{"index", gpu.index},
          {"visible_index", known(gpu.shown)},
          {"uuid", known(gpu.uuid)},
          {"name", known(gpu.name)},
          {"memory", {{"total", known(gpu.memory_total)}, {"used", known(gpu.memory_used)}}},
          {"utilization", known(gpu.utilization)},
          {"temperature", known(gpu.temperature)},
          {"power", known(gpu.power)},
          {"power_limit", known(gpu.power_limit)},
          {"unhealthy_because", known(gpu.sickness)},
          {"processes", std::move(users)},
          {"lease", gpu.holder ? to_json(*gpu.holder) : ordered_json(nullptr)},
          {"job", known(gpu.job)}};
}

ordered_json to_json(const JobSample& job) {
  const Progress& progress = job.progress;
  return {{"id", job.id},
          {"kind", job.kind == JobKind::queued ? "queued" : "process"},
          {"state", job.state},
          {"label", job.label},
          {"command", job.command},
          {"gpus", job.gpus},
          {"gpus_wanted", job.gpus_wanted},
          {"progress",
           {{"step", known(progress.step)},
            {"total", known(progress.total)},
            {"loss", known(progress.loss)},
            {"tokens_per_second", known(progress.tokens_per_second)},
            {"seconds_left", known(progress.seconds_left)}}},
          {"since", known(job.since)},
          {"ended", known(job.ended)},
          {"last_line", job.last_line},
          {"reason", job.reason},
          {"run", known(job.run)},
          {"pid", job.process ? ordered_json(job.process->pid) : ordered_json(nullptr)}};
}

std::string dump(const ordered_json& object, int indent) {
  return object.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

// A field of an object if it is present and has that type.
template <class Value>
void take(const json& object, const char* key, std::optional<Value>& out) {
  const auto found = object.find(key);
  if (found == object.end()) return;
  if constexpr (std::is_same_v<Value, std::string>) {
    if (found->is_string()) out = found->template get<std::string>();
  } else if constexpr (std::is_same_v<Value, ByteCount>) {
    if (found->is_number()) out = ByteCount{found->template get<std::int64_t>()};
  } else {
    if (found->is_number()) out = found->template get<Value>();
  }
}

const json& part(const json& object, const char* key) {
  static const json nothing = json::object();
  const auto found = object.find(key);
  return found != object.end() && (found->is_object() || found->is_array()) ? *found : nothing;
}

GpuSample gpu_of(const json& object) {
  GpuSample gpu;
  std::optional<int> index;
  take(object, "index", index);
  gpu.index = index.value_or(0);
  take(object, "visible_index", gpu.shown);
  take(object, "uuid", gpu.uuid);
  take(object, "name", gpu.name);
  take(part(object, "memory"), "total", gpu.memory_total);
  take(part(object, "memory"), "used", gpu.memory_used);
  take(object, "utilization", gpu.utilization);
  take(object, "temperature", gpu.temperature);
  take(object, "power", gpu.power);
  take(object, "power_limit", gpu.power_limit);
  take(object, "unhealthy_because", gpu.sickness);
  for (const json& entry : part(object, "processes")) {
    std::optional<pid_t> pid;
    take(entry, "pid", pid);
    GpuUser& user = gpu.users.emplace_back(GpuUser{pid.value_or(0), {}, {}});
    take(entry, "user", user.user);
    take(entry, "memory", user.memory);
  }
  if (const auto lease = object.find("lease"); lease != object.end() && lease->is_object()) {
    gpu.holder.emplace();
    take(*lease, "pid", gpu.holder->pid);
    take(*lease, "user", gpu.holder->user);
    take(*lease, "command", gpu.holder->command);
    take(*lease, "since", gpu.holder->since);
  }
  return gpu;
}

}  // namespace

std::string sample_json(const Sample& sample) {
  ordered_json out{
      {"time", store::timestamp(sample.time)},
      {"gpus", ordered_json::array()},
      {"gpus_explanation", sample.gpus.explanation},
      {"gpus_silent_seconds", nullptr},
      {"jobs", ordered_json::array()},
      {"counts",
       {{"running", sample.counts.running}, {"waiting", sample.counts.waiting}, {"settled", sample.counts.settled}}},
      {"notes", sample.notes}};
  if (sample.gpus_silent) out["gpus_silent_seconds"] = std::chrono::duration<double>(*sample.gpus_silent).count();
  for (const GpuSample& gpu : sample.gpus.gpus) out["gpus"].push_back(to_json(gpu));
  for (const JobSample& job : sample.jobs) out["jobs"].push_back(to_json(job));
  return dump(out, 2);
}

std::string report_line(const GpuReport& report) {
  ordered_json out{{"explanation", report.explanation}, {"gpus", ordered_json::array()}};
  for (const GpuSample& gpu : report.gpus) out["gpus"].push_back(to_json(gpu));
  return dump(out, -1) + "\n";
}

std::optional<GpuReport> parse_report(std::string_view line) {
  const auto object = parse_json_object(line, "the look at the GPUs");
  if (!object) return std::nullopt;
  GpuReport report;
  std::optional<std::string> explanation;
  take(*object, "explanation", explanation);
  report.explanation = explanation.value_or("");
  for (const json& entry : part(*object, "gpus"))
    if (entry.is_object()) report.gpus.push_back(gpu_of(entry));
  return report;
}

}  // namespace muster::monitor

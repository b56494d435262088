// The queue as a table and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "base/duration.hpp"
#include "base/one_line.hpp"
#include "base/table.hpp"
#include "queue/command_book.hpp"
#include "queue/conductor_status.hpp"
#include "queue/queue_clock.hpp"
#include "schedule/schedule_text.hpp"
#include "schedule/summary.hpp"
#include "service/queue.hpp"
#include "store/timestamp.hpp"
#include "system/files.hpp"

namespace muster::service {
namespace {

using nlohmann::ordered_json;
using schedule::JobRecord;
using schedule::JobState;
using Command = std::vector<std::string>;

Colour colour_of(JobState state) {
  switch (state) {
    case JobState::running:
    case JobState::stopping:
      return Colour::green;
    case JobState::failed:
      return Colour::red;
    case JobState::cancelled:
    case JobState::skipped:
      return Colour::yellow;
    default:
      return is_settled(state) ? Colour::dim : Colour::plain;
  }
}

constexpr std::size_t longest_label = 60, longest_command = 400, longest_reason = 400;  // in the table

std::string spoken_time(const JobRecord& record, schedule::Time now) {
  if (!record.started || (!has_gpus(record.state) && !record.ended)) return "";
  if (record.ended && *record.ended < *record.started) return "";
  return to_string(std::chrono::milliseconds(record.ended.value_or(now) - *record.started));
}

std::string spoken_gpus(const JobRecord& record) {
  if (record.job.gpus.minimum == 0) return "";
  if (has_gpus(record.state)) return schedule::gpu_list(record.gpus);
  return fmt::format("({})", record.job.gpus.minimum);
}

ordered_json to_json(const JobRecord& record, const Command& command) {
  const auto moment = [](const std::optional<schedule::Time>& time) {
    return time ? ordered_json(store::timestamp(*time)) : ordered_json(nullptr);
  };
  ordered_json out{{"id", record.job.id.text},
                   {"state", name(record.state)},
                   {"gpus_wanted", record.job.gpus.minimum},
                   {"gpus", ordered_json::array()},
                   {"label", record.job.label},
                   {"priority", record.job.priority},
                   {"attempts", record.attempts},
                   {"submitted", moment(record.submitted)},
                   {"started", moment(record.started)},
                   {"ended", moment(record.ended)},
                   {"exit_status", nullptr},
                   {"reason", record.reason},
                   {"command", nullptr}};
  if (record.started)
    for (const schedule::GpuNumber gpu : record.gpus) out["gpus"].push_back(number(gpu));
  if (record.last_end && record.last_end->how != schedule::HowEnded::killed) out["exit_status"] = record.last_end->code;
  if (!command.empty()) out["command"] = command;
  return out;
}

std::vector<Cell> to_row(const JobRecord& record, const Command& words, schedule::Time now) {
  std::string command = on_one_line(queue::spoken_command(words), longest_command);
  if (!record.reason.empty() && record.reason != name(record.state))
    command += fmt::format("  [{}]", on_one_line(record.reason, longest_reason));
  return {{record.job.id.text},       {std::string(name(record.state)), colour_of(record.state)},
          {spoken_gpus(record)},      {on_one_line(record.job.label, longest_label)},
          {spoken_time(record, now)}, {std::move(command)}};
}

std::string summary(const std::vector<JobRecord>& all, std::size_t archived) {
  std::map<std::string_view, int> counts;
  for (const JobRecord& record : all) ++counts[name(record.state)];
  std::string text = fmt::format("{} job{}", all.size(), all.size() == 1 ? "" : "s");
  for (const auto& [state, count] : counts) text += fmt::format(", {} {}", count, state);
  if (archived > 0) text += fmt::format("; {} older ones in the archive", archived);
  return text + "\n";
}

// Why jobs are not started although they could be: something is lacking.
std::string pause_lines(const schedule::Scheduler& scheduler, schedule::Time now) {
  std::string text;
  const auto add = [&](const std::optional<schedule::StartPause>& pause, std::string_view what) {
    if (pause && !scheduler.is_idle())
      text += fmt::format("{} cannot be started, which is tried again in {}: {}\n", what,
                          to_string(std::max(pause->until - now, schedule::Duration(0))),
                          on_one_line(pause->reason, longest_reason));
  };
  add(scheduler.pauses().machine, "jobs");
  add(scheduler.pauses().gpus, "jobs with GPUs");
  return text;
}

// Jobs that are only in the archive: on their way there they are in the journal, too.
Result<std::size_t> count_archived_only(queue::ArchiveIndex& archive, const std::vector<JobRecord>& all) {
  const auto count = archive.count();
  if (!count || *count == 0) return count;
  std::unordered_set<std::string> settled;
  for (const JobRecord& record : all)
    if (is_settled(record.state)) settled.insert(record.job.id.text);
  const auto both = archive.find(settled);
  if (!both) return both.error();
  return *count - std::min(*count, both->size());
}

// Jobs are listed by number, wherever they are stored.
std::pair<std::size_t, std::string> id_order(std::string id) { return {id.size(), std::move(id)}; }

// Which settled jobs of the journal are shown: those that ended last.
std::set<std::string_view> last_settled(const std::vector<JobRecord>& all, std::optional<std::size_t> most) {
  std::vector<const JobRecord*> settled;
  for (const JobRecord& record : all)
    if (is_settled(record.state)) settled.push_back(&record);
  std::ranges::stable_sort(settled, std::ranges::greater(), [](const JobRecord* record) { return record->ended; });
  settled.resize(std::min(settled.size(), most.value_or(settled.size())));
  std::set<std::string_view> ids;
  for (const JobRecord* record : settled) ids.insert(record->job.id.text);
  return ids;
}

}  // namespace

Result<std::string> Queue::table(std::optional<std::size_t> settled, bool colour) {
  const auto untaken = look();
  if (!untaken) return untaken.error();
  const auto archived = settled ? std::vector<queue::ArchivedJob>() : queue::read_archive(folder_);
  if (!archived) return archived.error();
  const auto& all = view_.scheduler().jobs().all();
  const auto count = count_archived_only(*archive_, all);
  if (!count) return count.error();
  const auto boot = read_file(folder_.boot());
  const queue::ClockReading reading = queue::read_clocks();
  const schedule::Time now =
      queue::QueueClock(reading, boot ? std::optional(queue::parse_boot(*boot)) : std::nullopt).at(reading);
  std::vector<std::vector<Cell>> rows{{{"ID"}, {"STATE"}, {"GPUS"}, {"LABEL"}, {"TIME"}, {"COMMAND"}}};
  for (const queue::ArchivedJob& job : *archived)
    if (!view_.scheduler().jobs().find(job.record.job.id)) rows.push_back(to_row(job.record, job.command, now));
  const auto shown = last_settled(all, settled);
  queue::BatchFiles batches(folder_.batches());
  for (const JobRecord& record : all)
    if (!is_settled(record.state) || shown.contains(record.job.id.text))
      rows.push_back(to_row(record, batches.command_of(record.job.id), now));
  for (const queue::Batch& batch : *untaken)
    for (const queue::QueuedJob& queued : batch.jobs)
      rows.push_back({{queued.job.id.text},
                      {"submitted"},
                      {""},
                      {on_one_line(queued.job.label, longest_label)},
                      {""},
                      {on_one_line(queue::spoken_command(queued.command), longest_command)}});
  if (all.empty() && *count == 0 && rows.size() == 1) return std::string("no job was ever submitted\n");
  std::ranges::stable_sort(rows.begin() + 1, rows.end(), {},
                           [](const auto& row) { return id_order(row.front().text); });
  const auto trouble = queue::conductor_trouble(folder_);
  return (rows.size() > 1 ? format_table(rows, colour) : "") + summary(all, *count) +
         pause_lines(view_.scheduler(), now) + (trouble ? *trouble + "\n" : "");
}

Result<std::string> Queue::json(bool all) {
  const auto untaken = look();
  if (!untaken) return untaken.error();
  const auto archived = all ? queue::read_archive(folder_) : std::vector<queue::ArchivedJob>();
  if (!archived) return archived.error();
  ordered_json out{{"gpus", ordered_json::array()}, {"jobs", ordered_json::array()}};
  for (const schedule::GpuStatus& gpu : view_.scheduler().gpus().all()) {
    constexpr std::string_view states[] = {"free", "taken", "held", "lost"};
    out["gpus"].push_back(
        {{"name", gpu.name}, {"state", states[static_cast<std::size_t>(gpu.state)]}, {"words", gpu.words}});
  }
  for (const queue::ArchivedJob& job : *archived)
    if (!view_.scheduler().jobs().find(job.record.job.id)) out["jobs"].push_back(to_json(job.record, job.command));
  queue::BatchFiles batches(folder_.batches());
  for (const JobRecord& record : view_.scheduler().jobs().all())
    out["jobs"].push_back(to_json(record, batches.command_of(record.job.id)));
  for (const queue::Batch& batch : *untaken)
    for (const queue::QueuedJob& queued : batch.jobs)
      out["jobs"].push_back({{"id", queued.job.id.text}, {"state", "submitted"}, {"command", queued.command}});
  const auto id_of = [](const ordered_json& job) { return id_order(job["id"].get<std::string>()); };
  std::stable_sort(out["jobs"].begin(), out["jobs"].end(),
                   [&](const ordered_json& one, const ordered_json& other) { return id_of(one) < id_of(other); });
  return out.dump(2);
}

}  // namespace muster::service

#include "monitor/run_watch.hpp"

#include "system/regular_file.hpp"
#include "base/text.hpp"
#include "json/json_text.hpp"
#include "store/metrics_table.hpp"

namespace muster::monitor {
namespace {

constexpr std::size_t few_bytes = 1;          // for files that are only watched for changes
constexpr std::size_t beginning = 64 * 1024;  // of events.jsonl, where the first attempt is recorded
constexpr double newest_share = 0.2;

}  // namespace

RunWatch::RunWatch(std::filesystem::path folder)
    : folder_(std::move(folder)),
      metrics_(folder_ / "metrics.csv", few_bytes),
      events_(folder_ / "events.jsonl", few_bytes) {}

std::filesystem::path RunWatch::log() const { return folder_ / "logs" / "rank-0.log"; }

// The number of steps, which the event of an attempt has.
void RunWatch::find_total() {
  const auto file = RegularFile::open(events_.path());
  if (!file) return;
  const auto text = file->beginning(std::min<std::uint64_t>(beginning, file->size()));
  if (!text) return;
  for (const std::string& line : split(*text, '\n')) {
    if (line.find("\"attempt\"") == std::string::npos) continue;
    const auto event = parse_json_object(line, "event");
    if (!event || event->value("event", nlohmann::json()) != "attempt") continue;
    const auto steps = event->find("steps");
    if (steps != event->end() && steps->is_number_integer() && steps->get<std::int64_t>() > 0)
      progress_.total = steps->get<std::int64_t>();
  }
}

const Progress& RunWatch::refresh() {
  if (!progress_.total && events_.refresh()) find_total();
  if (!metrics_.refresh()) return progress_;
  const auto table = store::read_last_metrics(metrics_.path());
  if (!table || table->steps.empty()) return progress_;
  progress_.step = table->steps.back();
  progress_.loss = table->last("loss");
  progress_.tokens_per_second = table->last("tokens_per_second");
  const double seconds = table->last("seconds").value_or(0);
  step_seconds_ = step_seconds_ == 0 ? seconds : step_seconds_ + newest_share * (seconds - step_seconds_);
  if (progress_.total && step_seconds_ > 0)
    progress_.seconds_left =
        step_seconds_ * static_cast<double>(std::max<std::int64_t>(0, *progress_.total - *progress_.step));
  return progress_;
}

}  // namespace muster::monitor

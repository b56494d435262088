#include "schedule/schedule_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/duration.hpp"
#include "base/table.hpp"
#include "base/text.hpp"

namespace muster::schedule {
namespace {

constexpr std::int64_t bar_width = 96;
constexpr std::size_t most_bars = 64;

std::string clock(Duration since) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since).count();
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

// The runs that each run had to wait for, by their numbers in the list.
std::string arrows(const JobRecord& record, const std::map<JobIndex, std::size_t>& last_run) {
  std::vector<std::string> numbers;
  for (const Dependency& dependency : record.dependencies)
    if (const auto run = last_run.find(dependency.job); run != last_run.end())
      numbers.push_back(fmt::format("{}", run->second + 1));
  return numbers.empty() ? "" : fmt::format("← {}", join(numbers, ", "));
}

std::string table(const Scheduler& scheduler, std::span<const JobRun> runs, Time begin) {
  std::vector<std::vector<Cell>> rows{{{"#", Colour::plain, true},
                                       {"start", Colour::plain, true},
                                       {"end", Colour::plain, true},
                                       {"GPUs"},
                                       {"job"},
                                       {"after"}}};
  std::map<JobIndex, std::size_t> last_run;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const JobRun& run = runs[i];
    const JobRecord& record = scheduler.jobs().at(run.job);
    const std::string end = run.end ? clock(*run.end - begin) : "…";
    std::string job = record.job.id.text;
    if (run.attempt > 1) job += fmt::format(" (attempt {})", run.attempt);
    if (run.end && !run.succeeded) job += " ✗";
    rows.push_back({{fmt::format("{}", i + 1), Colour::plain, true},
                    {clock(run.start - begin), Colour::plain, true},
                    {end, Colour::plain, true},
                    {gpu_list(run.gpus)},
                    {job},
                    {arrows(record, last_run)}});
    last_run[run.job] = i;
  }
  std::string text = format_table(rows, false);
  for (std::size_t end = text.find(" \n"); end != std::string::npos; end = text.find(" \n")) text.erase(end, 1);
  return text;
}

std::string bar(GpuNumber gpu, std::span<const JobRun> runs, Time begin, Time end) {
  const std::int64_t whole = std::max<std::int64_t>(1, (end - begin).count());
  const auto column = [&](Time time) { return static_cast<std::size_t>((time - begin).count() * bar_width / whole); };
  std::string text(static_cast<std::size_t>(bar_width) + 1, ' ');
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!std::ranges::binary_search(runs[i].gpus, gpu)) continue;
    const std::size_t from = column(runs[i].start), to = column(runs[i].end.value_or(end));
    for (std::size_t at = from; at < to; ++at) text[at] = '-';
    text[from] = text[to] = '|';
    const std::string label = fmt::format("{}", i + 1);
    if (from + label.size() < to) text.replace(from + 1, label.size(), label);
  }
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

}  // namespace

Time end_of(std::span<const JobRun> runs) {
  Time end;
  for (const JobRun& run : runs) end = std::max(end, run.end.value_or(run.start));
  return end;
}

std::string number_ranges(std::span<const int> numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    parts.push_back(last == i ? std::to_string(numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]));
    i = last + 1;
  }
  return join(parts, ",");
}

std::string gpu_list(std::span<const GpuNumber> gpus) {
  std::vector<int> numbers;
  for (const GpuNumber gpu : gpus) numbers.push_back(number(gpu));
  return numbers.empty() ? "none" : number_ranges(numbers);
}

std::string schedule_text(const Scheduler& scheduler, std::span<const JobRun> runs) {
  if (runs.empty()) return "nothing runs\n";
  const Time begin = runs.front().start, end = end_of(runs);
  const int gpus = scheduler.gpus().size();
  std::string text =
      fmt::format("{} job{} on {} GPU{}: {}\n\n", scheduler.jobs().size(), scheduler.jobs().size() == 1 ? "" : "s",
                  gpus, gpus == 1 ? "" : "s", to_string(end - begin));
  text += table(scheduler, runs, begin) + "\n";
  std::set<GpuNumber> used;
  for (const JobRun& run : runs) used.insert(run.gpus.begin(), run.gpus.end());
  std::size_t bars = 0;
  for (const GpuNumber gpu : used) {
    if (++bars > most_bars) break;
    text += fmt::format("GPU {:<4} {}\n", number(gpu), bar(gpu, runs, begin, end));
  }
  if (used.size() > most_bars) text += fmt::format("and {} more\n", used.size() - most_bars);
  return text;
}

}  // namespace muster::schedule

#include "schedule/schedule_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "base/duration.hpp"
#include "schedule/schedule_text.hpp"

namespace muster::schedule {
namespace {

constexpr double left = 80, right = 1180, top = 50, row = 28;
constexpr std::size_t most_arrows = 2000;

constexpr std::string_view style =
    "<style>\n"
    ".back{fill:#ffffff}.text{fill:#333333}.grid{stroke:#e3e3e3}.arrow{stroke:#888888;fill:none}.head{fill:#888888}\n"
    ".box{stroke:#ffffff}.failed{stroke:#b4532a;stroke-width:2}.name{fill:#111111}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".back{fill:#16191d}.text{fill:#d0d0d0}.grid{stroke:#2c3137}.arrow{stroke:#999999}.head{fill:#999999}\n"
    ".box{stroke:#16191d}}\n"
    "</style>\n"
    "<defs><marker id=\"head\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"6\" markerHeight=\"6\" "
    "orient=\"auto\"><path class=\"head\" d=\"M0 0L6 3L0 6z\"/></marker></defs>\n";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '&')
      out += "&amp;";
    else if (letter == '<')
      out += "&lt;";
    else if (letter == '>')
      out += "&gt;";
    else
      out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return out;
}

// Rows for runs that share none: each uses the first row that is free by then. By the runs' numbers; those with
// GPUs have none.
std::vector<std::size_t> rows_of_runs_without_gpus(std::span<const JobRun> runs, Time end) {
  std::vector<std::size_t> order, row_of(runs.size(), 0);
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i].gpus.empty()) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return runs[i].start; });
  std::vector<Time> free_from;  // by row
  for (const std::size_t i : order) {
    const auto free = std::ranges::find_if(free_from, [&](Time from) { return from <= runs[i].start; });
    row_of[i] = static_cast<std::size_t>(free - free_from.begin());
    const Time until = runs[i].end.value_or(end);
    if (free == free_from.end())
      free_from.push_back(until);
    else
      *free = until;
  }
  return row_of;
}

// A tick distance that people count in, giving at most this many ticks.
Duration tick_step(Duration whole, int most) {
  using namespace std::chrono_literals;
  constexpr Duration steps[] = {1ms,  2ms,  5ms,   10ms,  20ms,  50ms, 100ms, 200ms, 500ms, 1s,  2s,  5s,
                                10s,  15s,  30s,   1min,  2min,  5min, 10min, 15min, 30min, 1h,  2h,  3h,
                                6h,   12h,  24h,   48h,   120h,  240h};
  for (const Duration step : steps)
    if (whole / step <= most) return step;
  Duration step = steps[std::size(steps) - 1];
  while (whole / step > most) step *= 2;
  return step;
}

class Drawing {
 public:
  Drawing(const Scheduler& scheduler, std::span<const JobRun> runs)
      : scheduler_(scheduler), runs_(runs), begin_(runs.empty() ? Time{} : runs.front().start), end_(end_of(runs)) {
    std::set<GpuNumber> used;
    for (const JobRun& run : runs) used.insert(run.gpus.begin(), run.gpus.end());
    for (const GpuNumber gpu : used) row_of_.emplace(gpu, row_of_.size());
    without_ = rows_of_runs_without_gpus(runs, end_);
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (runs[i].gpus.empty()) rows_without_ = std::max(rows_without_, without_[i] + 1);
  }

  double height() const { return top + row * static_cast<double>(rows()) + 40; }

  std::string grid() const {
    std::string svg;
    for (const auto& [gpu, at] : row_of_)
      svg += label(left - 8, middle(at) + 4, fmt::format("GPU {}", number(gpu)), "end");
    if (rows_without_ > 0) svg += label(left - 8, middle(row_of_.size()) + 4, "no GPU", "end");
    const double bottom = top + row * static_cast<double>(rows());
    constexpr int most_ticks = 12;
    for (Time time = begin_; time <= end_; time += tick_step(end_ - begin_, most_ticks)) {
      svg += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n",
                         x(time), top, bottom);
      svg += label(x(time), bottom + 20, time == begin_ ? "0" : to_string(time - begin_), "middle");
    }
    return svg;
  }

  std::string boxes() const {
    std::string svg;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const JobRun& run = runs_[i];
      if (run.gpus.empty()) svg += box(i, row_of_.size() + without_[i], 1);
      for (std::size_t first = 0; first < run.gpus.size();) {
        std::size_t last = first;
        while (last + 1 < run.gpus.size() && row_of_.at(run.gpus[last + 1]) == row_of_.at(run.gpus[last]) + 1) ++last;
        svg += box(i, row_of_.at(run.gpus[first]), last - first + 1);
        first = last + 1;
      }
    }
    return svg;
  }

  std::string dependencies() const {
    std::string svg;
    std::map<JobIndex, std::size_t> last_run;
    std::size_t arrows = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      for (const Dependency& dependency : scheduler_.jobs().at(runs_[i].job).dependencies)
        if (const auto from = last_run.find(dependency.job); from != last_run.end() && ++arrows <= most_arrows)
          svg += arrow(from->second, i);
      last_run[runs_[i].job] = i;
    }
    return svg;
  }

 private:
  std::size_t rows() const { return row_of_.size() + rows_without_; }
  double x(Time time) const {
    const double whole = std::max(1.0, static_cast<double>((end_ - begin_).count()));
    return left + static_cast<double>((time - begin_).count()) / whole * (right - left);
  }
  static double middle(std::size_t at) { return top + row * (static_cast<double>(at) + 0.5); }
  double middle_of_run(std::size_t index) const {
    const JobRun& run = runs_[index];
    return middle(run.gpus.empty() ? row_of_.size() + without_[index] : row_of_.at(run.gpus.front()));
  }

  static std::string label(double at_x, double at_y, std::string_view text, std::string_view anchor) {
    return fmt::format("<text class=\"text\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", at_x, at_y,
                       anchor, escaped(text));
  }

  std::string box(std::size_t index, std::size_t first_row, std::size_t count) const {
    const JobRun& run = runs_[index];
    const JobRecord& record = scheduler_.jobs().at(run.job);
    const Time end = run.end.value_or(end_);
    const double width = std::max(1.0, x(end) - x(run.start)), high = row * static_cast<double>(count) - 4;
    const double y = top + row * static_cast<double>(first_row) + 2;
    const bool failed = run.end && !run.succeeded;
    std::string svg = fmt::format(
        "<rect class=\"box{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"3\" "
        "fill=\"hsl({},55%,68%)\"><title>{}\nGPUs {}, {} to {}{}</title></rect>\n",
        failed ? " failed" : "", x(run.start), y, width, high, record.strand * 137 % 360, escaped(record.job.id.text),
        gpu_list(run.gpus), to_string(run.start - begin_), to_string(end - begin_), failed ? ", failed" : "");
    // About 6 units per letter at this size; what does not fit is shown when pointing at it.
    const std::string& id = record.job.id.text;
    const std::string name = width > 6.2 * static_cast<double>(id.size()) + 8 ? id : fmt::format("{}", index + 1);
    if (width > 6.2 * static_cast<double>(name.size()) + 4)
      svg += fmt::format("<text class=\"name\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x(run.start) + 4,
                         y + high / 2 + 4, escaped(name));
    return svg;
  }

  std::string arrow(std::size_t from, std::size_t to) const {
    const double x1 = x(runs_[from].end.value_or(end_)), y1 = middle_of_run(from);
    const double x2 = x(runs_[to].start), y2 = middle_of_run(to);
    if (x2 - x1 < 1 && y1 == y2) return "";  // one after another on the same GPU
    return fmt::format(
        "<path class=\"arrow\" marker-end=\"url(#head)\" d=\"M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} "
        "{:.1f}\"/>\n",
        x1, y1, x1 + 16, y1, x2 - 16, y2, x2, y2);
  }

  const Scheduler& scheduler_;
  std::span<const JobRun> runs_;
  Time begin_, end_;
  std::map<GpuNumber, std::size_t> row_of_;
  std::vector<std::size_t> without_;  // by run: its row among those without GPUs
  std::size_t rows_without_ = 0;
};

}  // namespace

std::string schedule_svg(std::string_view title, const Scheduler& scheduler, std::span<const JobRun> runs) {
  const Drawing drawing(scheduler, runs);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 {0:.0f}\" width=\"1200\" height=\"{0:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n",
      drawing.height());
  svg += style;
  svg += "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n";
  svg += fmt::format("<text class=\"text\" x=\"{:.0f}\" y=\"28\" font-size=\"15\">{}</text>\n", left, escaped(title));
  return svg + drawing.grid() + drawing.boxes() + drawing.dependencies() + "</svg>\n";
}

}  // namespace muster::schedule

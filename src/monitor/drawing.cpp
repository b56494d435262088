#include "monitor/drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/cell_text.hpp"
#include "base/table.hpp"
#include "monitor/words.hpp"

namespace muster::monitor {
namespace {

struct Column {
  std::string_view title;
  std::size_t width = 0;  // of the last one: the rest
  Align align = Align::left;
  bool is_shown = true;
};

// "3* 97/78": its number, whether it is taken, percent of time and of memory in use.
std::string dense(const GpuSample& gpu) {
  const auto share = memory_share(gpu);
  const char* mark = gpu.sickness ? "!" : gpu.job || gpu.holder || !gpu.users.empty() ? "*" : " ";
  return fmt::format("{}{}{:>3}/{:<3}", id_words(gpu), mark, gpu.utilization ? std::to_string(*gpu.utilization) : "-",
                     share ? fmt::format("{:.0f}", *share * 100) : "-");
}

std::size_t dense_width(const Sample& sample) {
  std::size_t width = 1;
  for (const GpuSample& gpu : sample.gpus.gpus) width = std::max(width, dense(gpu).size());
  return width;
}

std::size_t dense_per_line(const Sample& sample, std::size_t width) {
  return std::max<std::size_t>((width + 1) / (dense_width(sample) + 1), 1);
}

class Drawing {
 public:
  Drawing(const Sample& sample, const ViewState& state, ScreenSize size, DrawStyle style)
      : sample_(sample), state_(state), size_(size), style_(style) {}

  std::vector<std::string> whole() {
    add(fit_to_cells("muster top  " + summary_words(sample_, style_.unicode), size_.width, Align::left, mark()),
        Colour::bold);
    switch (state_.mode) {
      case ViewState::Mode::list:
        add_list();
        break;
      case ViewState::Mode::log:
        add_log(size_.height - std::min<std::size_t>(size_.height, 2), state_.back);
        break;
      case ViewState::Mode::help:
        add_help();
        break;
    }
    lines_.resize(size_.height > 0 ? size_.height - 1 : 0);
    if (size_.height > 0) add_last_line();
    return std::move(lines_);
  }

 private:
  std::string_view mark() const { return style_.unicode ? "…" : "~"; }
  std::string clean_text(const std::string& text) const { return clean(text, style_.unicode); }

  void add(const std::string& text, Colour colour = Colour::plain) {
    lines_.push_back(paint(colour, cut_to_cells(text, size_.width, mark()), style_.colour));
  }

  void add_list() {
    const Layout layout = lay_out(sample_, size_);
    if (layout.dense_gpus)
      add_dense_gpus(layout.gpus);
    else
      add_gpus(layout.gpus);
    add_jobs(layout);
    if (layout.log > 0) {
      lines_.resize(size_.height - 1 - layout.log);
      add_log(layout.log, 0);
    }
  }

  std::string bar(double share, std::size_t cells) const {
    const auto filled = static_cast<std::size_t>(share * static_cast<double>(cells) + 0.5);
    std::string text;
    for (std::size_t i = 0; i < cells; ++i)
      text += style_.unicode ? (i < filled ? "█" : "░") : (i < filled ? "#" : ".");
    return text;
  }

  // A row of cells in columns, the last of which takes the rest.
  void add_row(std::span<const Column> columns, std::span<const Cell> cells, std::string_view before,
               bool is_selected) {
    std::string line = cut_to_cells(before, size_.width, mark());
    std::size_t used = cell_width(line);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (!columns[i].is_shown) continue;
      const bool is_last = i + 1 == columns.size();
      if (used >= size_.width) break;
      const std::size_t room = std::min(is_last ? size_.width : columns[i].width, size_.width - used);
      const std::string text = fit_to_cells(clean_text(cells[i].text), room, columns[i].align, mark());
      line += paint(cells[i].colour, text, style_.colour && !is_selected);
      used += room;
      if (!is_last && used < size_.width) line += ' ', ++used;
    }
    if (is_selected && style_.colour) line = "\033[7m" + line + "\033[0m";
    lines_.push_back(std::move(line));
  }

  void add_heading(std::span<const Column> columns, std::string_view before) {
    std::vector<Cell> titles;
    for (const Column& column : columns) titles.push_back({std::string(column.title), Colour::dim});
    add_row(columns, titles, before, false);
  }

  void add_gpus(std::size_t lines) {
    if (lines == 0) return;
    const std::size_t width = size_.width;
    const std::array columns{Column{"ID", 3, Align::right},
                             Column{"NAME", 22, Align::left, width >= 120},
                             Column{"", 10, Align::left, width >= 76},
                             Column{"MEMORY", 15, Align::right},
                             Column{"UTIL", 5, Align::right},
                             Column{"TEMP", 5, Align::right, width >= 64},
                             Column{"POWER", 9, Align::right, width >= 76},
                             Column{"USED BY", 0}};
    if (const auto trouble = gpu_trouble(sample_))
      add(clean_text(*trouble), Colour::yellow);
    else
      add_heading(columns, "");
    for (std::size_t i = 0; i < sample_.gpus.gpus.size() && i + 1 < lines; ++i) {
      const GpuSample& gpu = sample_.gpus.gpus[i];
      const auto share = memory_share(gpu);
      const Colour load = !share || *share > 0.9 ? Colour::red : *share > 0.1 ? Colour::yellow : Colour::green;
      add_row(columns,
              std::array{Cell{id_words(gpu), Colour::bold}, Cell{gpu.name.value_or("")},
                         Cell{share ? bar(*share, 10) : "", load}, Cell{memory_words(gpu)},
                         Cell{percent_words(gpu.utilization)}, Cell{temperature_words(gpu)}, Cell{power_words(gpu)},
                         user_of(gpu, sample_)},
              "", false);
    }
    if (sample_.gpus.gpus.empty() && lines > 1) lines_.emplace_back();
  }

  void add_dense_gpus(std::size_t lines) {
    if (lines == 0) return;
    const std::size_t per_line = dense_per_line(sample_, size_.width);
    const auto& gpus = sample_.gpus.gpus;
    const std::size_t room = per_line * lines;
    const std::size_t shown = gpus.size() <= room ? gpus.size() : room - 1;
    std::string line;
    for (std::size_t i = 0; i < shown; ++i) {
      line += fit_to_cells(dense(gpus[i]), dense_width(sample_)) + " ";
      if ((i + 1) % per_line == 0) add(std::exchange(line, ""));
    }
    if (shown < gpus.size()) line += fmt::format("+{} more", gpus.size() - shown);
    if (!line.empty()) add(line);
  }

  std::string progress_text(const Progress& progress, std::size_t cells) const {
    const auto share = share_done(progress);
    if (!share) return progress.step ? fmt::format("step {}", *progress.step) : "";
    const std::string percent = fmt::format("{:3.0f} %", *share * 100);
    return cells > percent.size() + 1 ? bar(*share, cells - percent.size() - 1) + " " + percent : percent;
  }

  void add_jobs(const Layout& layout) {
    const auto shown = shown_jobs(sample_, state_);
    const std::size_t end = std::min(shown.size(), state_.first + layout.jobs);
    std::size_t id_width = 2, gpu_width = 4;
    for (std::size_t i = state_.first; i < end; ++i) {
      id_width = std::max(id_width, cell_width(sample_.jobs[shown[i]].id));
      gpu_width = std::max(gpu_width, gpu_words(sample_.jobs[shown[i]]).size());
    }
    const std::size_t width = size_.width;
    const std::size_t progress_width = width >= 70 ? 14 : 5;
    const std::array columns{Column{"ID", std::min<std::size_t>(id_width, 20)},
                             Column{"STATE", 9},
                             Column{"GPUS", std::min<std::size_t>(gpu_width, 11), Align::left, width >= 50},
                             Column{"DONE", progress_width},
                             Column{"STEP", 13, Align::right, width >= 110},
                             Column{"LOSS", 8, Align::right, width >= 120},
                             Column{"TOKENS/S", 8, Align::right, width >= 130},
                             Column{"LEFT", 7, Align::right, width >= 60},
                             Column{"TIME", 7, Align::right, width >= 56},
                             Column{"JOB", 0}};
    if (layout.job_heading) add_heading(columns, "  ");
    for (std::size_t i = state_.first; i < end; ++i) {
      const JobSample& job = sample_.jobs[shown[i]];
      const bool is_selected = i == state_.position;
      add_row(columns,
              std::array{Cell{job.id, Colour::bold}, Cell{job.state, colour_of(job)}, Cell{gpu_words(job)},
                         Cell{progress_text(job.progress, progress_width), Colour::green},
                         Cell{step_words(job.progress)}, Cell{loss_words(job.progress)}, Cell{rate_words(job.progress)},
                         Cell{left_words(job)}, Cell{time_words(job, sample_.time)}, Cell{job_text(job)}},
              is_selected ? (style_.unicode ? "▸ " : "> ") : "  ", is_selected);
    }
    if (shown.empty() && layout.jobs > 0)
      add(state_.filter.empty() ? "  no job runs or waits" : "  no job has \"" + clean_text(state_.filter) + "\"",
          Colour::dim);
  }

  // What it is, and its last line.
  std::string job_text(const JobSample& job) const {
    std::string what = job.label.empty() ? job.command : job.label + "  " + job.command;
    const std::string last = last_words(job);
    if (last.empty() || share_done(job.progress)) return what;
    constexpr std::size_t longest_before_last = 24;
    return cut_to_cells(clean_text(what), longest_before_last, mark()) + "  " + last;
  }

  void add_log(std::size_t lines, std::size_t back) {
    const JobSample* job = selected_job(sample_, state_);
    if (lines == 0) return;
    std::string title;
    if (job != nullptr) {
      title = fmt::format("{}: {}", job->id, job->label.empty() ? job->command : job->label);
      title = (job->phase == JobPhase::waiting ? "what it waits for, " : "log of ") + clean_text(title);
      if (back > 0) title += fmt::format(", {} lines before its end", back);
    }
    std::string rule;
    const std::string_view dash = style_.unicode ? "─" : "-";
    for (std::size_t i = 0; i < 2; ++i) rule += dash;
    rule += " " + cut_to_cells(title, size_.width - std::min<std::size_t>(size_.width, 4), mark()) + " ";
    while (cell_width(rule) < size_.width) rule += dash;
    add(rule, Colour::dim);
    if (sample_.focus != state_.selected) return;  // of the job that was selected before
    const std::size_t room = lines - 1, count = sample_.lines.size();
    // For a log the end matters, for a reason the beginning.
    const bool is_log = job == nullptr || job->phase != JobPhase::waiting;
    const std::size_t end = is_log ? count - std::min(back, count) : std::min(room, count);
    const std::size_t begin = end - std::min(room, end);
    for (std::size_t i = begin; i < end; ++i) add(clean_text(sample_.lines[i]));
    if (job != nullptr && sample_.lines.empty() && room > 0)
      add(job->kind == JobKind::queued ? "nothing yet" : "its output goes to its own terminal", Colour::dim);
  }

  void add_help() {
    for (const char* line :
         {"", "  up down j k   select a job; PgUp PgDn Home End", "  Enter l       its whole log; Esc goes back",
          "  s             stop it; asks first", "  /             show jobs with a text; Enter keeps it, Esc drops it",
          "  g             show those that have ended, or not", "  q Ctrl-C      quit", "  Ctrl-Z        suspend", "",
          "  a key goes back"})
      add(line);
  }

  void add_last_line() {
    const JobSample* job = selected_job(sample_, state_);
    std::string text;
    Colour colour = Colour::dim;
    if (!state_.asks_to_stop.empty()) {
      text = fmt::format("stop {}{}? y/n", state_.asks_to_stop,
                         job != nullptr ? " (" + (job->label.empty() ? job->command : job->label) + ")" : "");
      colour = Colour::red;
    } else if (state_.types_filter) {
      text = "/" + state_.filter + (style_.unicode ? "▏" : "_");
      colour = Colour::bold;
    } else if (!state_.message.empty()) {
      text = state_.message;
      colour = Colour::yellow;
    } else if (!sample_.notes.empty()) {
      text = sample_.notes.front();
      colour = Colour::yellow;
    } else if (state_.mode == ViewState::Mode::log) {
      text = "Esc back  up/down scroll  s stop";
    } else {
      text = state_.filter.empty() ? "" : "[" + state_.filter + "]  ";
      text += "q quit  l log  s stop  / filter  g ended  ? help";
    }
    add(clean_text(text), colour);
  }

  const Sample& sample_;
  const ViewState& state_;
  ScreenSize size_;
  DrawStyle style_;
  std::vector<std::string> lines_;
};

Cell right(std::string text) { return {std::move(text), Colour::plain, true}; }

}  // namespace

std::vector<std::string> draw(const Sample& sample, const ViewState& state, ScreenSize size, DrawStyle style) {
  if (size.width == 0 || size.height == 0) return {};
  return Drawing(sample, state, size, style).whole();
}

std::size_t dense_gpu_lines(const Sample& sample, std::size_t width) {
  const std::size_t per_line = dense_per_line(sample, width);
  return (sample.gpus.gpus.size() + per_line - 1) / per_line;
}

std::string plain_text(const Sample& sample, DrawStyle style) {
  const auto text = [&](const std::string& of_others) { return clean(of_others, style.unicode); };
  std::string out = summary_words(sample, style.unicode) + "\n";
  if (const auto trouble = gpu_trouble(sample)) out += text(*trouble) + "\n";
  std::vector<std::vector<Cell>> rows{
      {right("ID"), {"NAME"}, right("MEMORY"), right("UTIL"), right("TEMP"), right("POWER"), {"USED BY"}}};
  for (const GpuSample& gpu : sample.gpus.gpus) {
    Cell user = user_of(gpu, sample);
    user.text = text(user.text);
    rows.push_back({right(id_words(gpu)),
                    {text(gpu.name.value_or(""))},
                    right(memory_words(gpu)),
                    right(percent_words(gpu.utilization)),
                    right(temperature_words(gpu)),
                    right(power_words(gpu)),
                    user});
  }
  if (rows.size() > 1) out += format_table(rows, style.colour);
  rows = {{{"ID"},
           {"STATE"},
           {"GPUS"},
           right("STEP"),
           right("LOSS"),
           right("TOKENS/S"),
           right("LEFT"),
           right("TIME"),
           {"LABEL"},
           {"COMMAND"},
           {""}}};
  for (const JobSample& job : sample.jobs)
    rows.push_back({{job.id},
                    {job.state, colour_of(job)},
                    {gpu_words(job)},
                    right(step_words(job.progress)),
                    right(loss_words(job.progress)),
                    right(rate_words(job.progress)),
                    right(left_words(job)),
                    right(time_words(job, sample.time)),
                    {text(job.label)},
                    {text(job.command)},
                    {share_done(job.progress) ? "" : text(last_words(job))}});
  if (rows.size() > 1) out += "\n" + format_table(rows, style.colour);
  for (const std::string& note : sample.notes) out += text(note) + "\n";
  return out;
}

}  // namespace muster::monitor

#include "monitor/view.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "monitor/drawing.hpp"

namespace muster::monitor {
namespace {

bool matches(const JobSample& job, const std::string& wanted) {
  for (const std::string* text : {&job.id, &job.state, &job.label, &job.command})
    if (to_lower(*text).find(wanted) != std::string::npos) return true;
  return false;
}

void move_selection(ViewState& state, const Sample& sample, std::ptrdiff_t by) {
  const auto shown = shown_jobs(sample, state);
  if (shown.empty()) return;
  const auto last = static_cast<std::ptrdiff_t>(shown.size()) - 1;
  state.position = static_cast<std::size_t>(std::clamp(static_cast<std::ptrdiff_t>(state.position) + by, {}, last));
  state.selected = sample.jobs[shown[state.position]].id;
}

void scroll_log(ViewState& state, const Sample& sample, ScreenSize size, std::ptrdiff_t by) {
  const std::size_t room = size.height > 3 ? size.height - 3 : 1;  // less title, heading and last line
  const std::size_t most = sample.lines.size() > room ? sample.lines.size() - room : 0;
  state.back = static_cast<std::size_t>(
      std::clamp(static_cast<std::ptrdiff_t>(state.back) + by, {}, static_cast<std::ptrdiff_t>(most)));
}

void remove_last_character(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) text.pop_back();
  if (!text.empty()) text.pop_back();
}

void type_filter(ViewState& state, const Key& key) {
  if (key.kind == KeyKind::enter) state.types_filter = false;
  if (key.kind == KeyKind::escape) state.types_filter = false, state.filter.clear();
  if (key.kind == KeyKind::backspace) remove_last_character(state.filter);
  if (key.kind == KeyKind::text) state.filter += key.text;
}

bool is_way(KeyKind kind) {
  return kind == KeyKind::up || kind == KeyKind::down || kind == KeyKind::page_up || kind == KeyKind::page_down ||
         kind == KeyKind::home || kind == KeyKind::end;
}

// By how many lines a key moves; page: how many are on a screen.
std::ptrdiff_t way_of(KeyKind kind, std::size_t page) {
  constexpr std::ptrdiff_t all = 1'000'000'000;
  const auto lines = static_cast<std::ptrdiff_t>(std::max<std::size_t>(page, 1));
  switch (kind) {
    case KeyKind::up:
      return -1;
    case KeyKind::down:
      return 1;
    case KeyKind::page_up:
      return -lines;
    case KeyKind::page_down:
      return lines;
    case KeyKind::home:
      return -all;
    case KeyKind::end:
      return all;
    default:
      return 0;
  }
}

void ask_to_stop(ViewState& state, const Sample& sample) {
  const JobSample* job = selected_job(sample, state);
  if (job == nullptr) return;
  if (job->phase == JobPhase::settled)
    state.message = "job " + job->id + " has ended";
  else if (job->kind == JobKind::process && !job->process)
    state.message = "it runs on another machine: it has to be stopped there";
  else
    state.asks_to_stop = job->id;
}

void press_in_list(KeyOutcome& outcome, const std::string& letter, const Sample& sample) {
  ViewState& state = outcome.state;
  if (letter == "q") outcome.quit = true;
  if (letter == "l" && selected_job(sample, state) != nullptr) state.mode = ViewState::Mode::log, state.back = 0;
  if (letter == "s") ask_to_stop(state, sample);
  if (letter == "/") state.types_filter = true;
  if (letter == "g") state.shows_settled = !state.shows_settled;
  if (letter == "?" || letter == "h") state.mode = ViewState::Mode::help;
}

// The letters that stand for other keys.
Key plain(const Key& key) {
  if (key.text == "j") return {KeyKind::down, ""};
  if (key.text == "k") return {KeyKind::up, ""};
  return key;
}

void press(KeyOutcome& outcome, const Key& typed, const Sample& sample, ScreenSize size) {
  ViewState& state = outcome.state;
  const Key key = plain(typed);
  switch (state.mode) {
    case ViewState::Mode::help:
      state.mode = ViewState::Mode::list;
      return;
    case ViewState::Mode::log:
      if (is_way(key.kind))
        scroll_log(state, sample, size, -way_of(key.kind, size.height - std::min<std::size_t>(size.height, 3)));
      if (key.kind == KeyKind::escape || key.kind == KeyKind::enter || key.text == "l" || key.text == "q")
        state.mode = ViewState::Mode::list;
      if (key.text == "s") ask_to_stop(state, sample);
      return;
    case ViewState::Mode::list:
      if (is_way(key.kind)) move_selection(state, sample, way_of(key.kind, lay_out(sample, size).jobs));
      if (key.kind == KeyKind::enter) press_in_list(outcome, "l", sample);
      if (key.kind == KeyKind::escape) state.filter.clear();
      if (key.kind == KeyKind::text) press_in_list(outcome, key.text, sample);
  }
}

}  // namespace

std::vector<std::size_t> shown_jobs(const Sample& sample, const ViewState& state) {
  const std::string wanted = to_lower(state.filter);
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < sample.jobs.size(); ++i) {
    const JobSample& job = sample.jobs[i];
    if (!state.shows_settled && job.phase == JobPhase::settled) continue;
    if (wanted.empty() || matches(job, wanted)) shown.push_back(i);
  }
  return shown;
}

const JobSample* selected_job(const Sample& sample, const ViewState& state) {
  const auto found = std::ranges::find(sample.jobs, state.selected, &JobSample::id);
  return found == sample.jobs.end() ? nullptr : &*found;
}

ViewState settled(ViewState state, const Sample& sample, ScreenSize size) {
  const auto shown = shown_jobs(sample, state);
  if (shown.empty()) {
    state.selected.clear();
    state.position = state.first = 0;
    if (state.mode == ViewState::Mode::log) state.mode = ViewState::Mode::list;
    return state;
  }
  const auto place = std::ranges::find(shown, state.selected, [&](std::size_t i) { return sample.jobs[i].id; });
  // While nothing is selected, the first job is shown, whichever that is.
  state.position = place != shown.end() ? static_cast<std::size_t>(place - shown.begin())
                                        : std::min(state.position, shown.size() - 1);
  state.selected = sample.jobs[shown[state.position]].id;
  const std::size_t room = std::max<std::size_t>(lay_out(sample, size).jobs, 1);
  state.first = std::min(state.first, shown.size() > room ? shown.size() - room : 0);
  state.first = std::min(state.first, state.position);
  if (state.position >= state.first + room) state.first = state.position - room + 1;
  return state;
}

KeyOutcome after_key(ViewState state, const Key& key, const Sample& sample, ScreenSize size) {
  state.message.clear();
  KeyOutcome outcome{std::move(state), std::nullopt};
  ViewState& changed = outcome.state;
  if (key.kind == KeyKind::interrupt) {
    outcome.quit = outcome.interrupted = true;
  } else if (key.kind == KeyKind::suspend) {
    outcome.suspend = true;
  } else if (!changed.asks_to_stop.empty()) {
    if (key.text == "y" || key.text == "Y") outcome.stop = changed.asks_to_stop;
    changed.asks_to_stop.clear();
  } else if (changed.types_filter) {
    type_filter(changed, key);
  } else {
    press(outcome, key, sample, size);
  }
  changed = settled(std::move(changed), sample, size);
  return outcome;
}

Focus focus_of(const ViewState& state, const Sample& sample, ScreenSize size) {
  constexpr std::size_t many = 2000;
  return {state.selected, state.mode == ViewState::Mode::log ? many : lay_out(sample, size).log};
}

// Title and last line are always there. Then GPUs, at most a third of the rest unless everything fits; then jobs;
// then the log, if enough is left for it.
Layout lay_out(const Sample& sample, ScreenSize size) {
  constexpr std::size_t fewest_jobs = 4, smallest_log = 4, largest_log = 12;
  Layout layout;
  std::size_t left = size.height > 2 ? size.height - 2 : 0;
  const std::size_t gpus = sample.gpus.gpus.size();
  const std::size_t rows = std::max<std::size_t>(gpus, 1) + 1;
  layout.dense_gpus = gpus > 0 && rows + fewest_jobs + 1 > left;
  layout.gpus =
      layout.dense_gpus ? std::min(dense_gpu_lines(sample, size.width), std::max<std::size_t>(left / 3, 1)) : rows;
  layout.gpus = std::min(layout.gpus, left);
  left -= layout.gpus;
  layout.job_heading = left > 2;
  left -= layout.job_heading ? 1 : 0;
  if (left >= fewest_jobs + smallest_log) {
    layout.log = std::clamp(left / 3, smallest_log, largest_log);
    left -= layout.log;
  }
  layout.jobs = left;
  return layout;
}

}  // namespace muster::monitor

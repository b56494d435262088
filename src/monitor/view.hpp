// The live view without a terminal: what is shown of a sample, and what keys do to it. Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "monitor/key.hpp"
#include "monitor/sample.hpp"

namespace muster::monitor {

struct ScreenSize {
  std::size_t width = 80, height = 24;
  bool operator==(const ScreenSize&) const = default;
};

struct ViewState {
  enum class Mode { list, log, help };
  Mode mode = Mode::list;
  std::string selected;      // the id of a job; empty: the first
  std::size_t position = 0;  // of the selected job among those shown: it stays there when its job is gone
  std::size_t first = 0;     // the first job that has a line
  std::size_t back = 0;      // in the log: how many lines above its end
  bool shows_settled = true;
  std::string filter;  // jobs that contain it in their id, state, label or command
  bool types_filter = false;
  std::string asks_to_stop;  // the id of a job: asks whether to really stop it
  std::string message;       // in the last line, until the next key
  bool operator==(const ViewState&) const = default;
};

// Effects of a key other than a new view.
struct KeyOutcome {
  ViewState state;
  std::optional<std::string> stop;  // the job to stop
  bool quit = false;
  bool interrupted = false;  // by Ctrl-C
  bool suspend = false;      // by Ctrl-Z
};

// The jobs that are shown, by their places in the sample.
std::vector<std::size_t> shown_jobs(const Sample& sample, const ViewState& state);
// The selected one.
const JobSample* selected_job(const Sample& sample, const ViewState& state);

// The view after a new sample, another size or a key: something is selected, and visible.
ViewState settled(ViewState state, const Sample& sample, ScreenSize size);
KeyOutcome after_key(ViewState state, const Key& key, const Sample& sample, ScreenSize size);
// What the view needs from the next sample.
Focus focus_of(const ViewState& state, const Sample& sample, ScreenSize size);

// How the screen is divided. Each part is a number of lines, not counting the title and the last line.
struct Layout {
  std::size_t gpus = 0;     // with a heading, or several GPUs to a line
  bool dense_gpus = false;  // several to a line
  std::size_t jobs = 0;     // without its heading
  bool job_heading = false;
  std::size_t log = 0;  // with a heading
};
Layout lay_out(const Sample& sample, ScreenSize size);

}  // namespace muster::monitor

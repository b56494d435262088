// muster top: GPUs and jobs, live or once.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>

#include "base/duration.hpp"
#include "cli/command.hpp"
#include "cli/screen.hpp"
#include "cli/terminal.hpp"
#include "monitor/drawing.hpp"
#include "monitor/key.hpp"
#include "monitor/view.hpp"
#include "service/live_view.hpp"

namespace muster::cli {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

struct TopOptions {
  std::shared_ptr<InventoryOption> inventory;
  std::string output;
  std::string interval = "1s";
  bool once = false;
  bool json = false;
};

// How long to wait for the GPUs before the rest is shown without them: once, and at each further look.
constexpr milliseconds patience_once(5000), patience_each(150);
// An escape that nothing follows for this long is the key itself.
constexpr milliseconds escape_pause(50);

milliseconds until(Clock::time_point moment) {
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(moment - Clock::now()));
}

void wait_for_gpus(service::LiveView& live, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  live.ask_for_gpus();
  while (!live.has_gpus() && Clock::now() < deadline) {
    std::vector<pollfd> polled;
    for (const int descriptor : live.descriptors()) polled.push_back({descriptor, POLLIN, 0});
    ::poll(polled.data(), polled.size(), static_cast<int>(until(deadline).count()));
    live.receive();
  }
}

int show_once(service::LiveView& live, bool json) {
  wait_for_gpus(live, patience_once);
  const monitor::Sample sample = live.sample({});
  // A pipe gets everything verbatim: names and commands are as they were written.
  if (json)
    show_json(monitor::sample_json(sample) + "\n");
  else
    show(monitor::plain_text(sample, {output_has_colour(), ::isatty(STDOUT_FILENO) != 1 || output_is_unicode()}));
  return 0;
}

// Signals as something to poll, instead of what they would do to a terminal in raw mode.
FileDescriptor take_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGWINCH, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT}) ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return FileDescriptor(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
}

class TopLoop {
 public:
  TopLoop(service::LiveView& live, Screen& screen, const FileDescriptor& signals, milliseconds interval)
      : live_(live),
        screen_(screen),
        signals_(signals),
        interval_(interval),
        style_{output_has_colour(), output_is_unicode()} {}

  // The exit status.
  int run() {
    size_ = screen_.size();
    look();
    while (!status_) {
      wait();
      const auto now = Clock::now();
      if (now >= next_ask_) {
        next_ask_ = now + interval_;
        live_.ask_for_gpus();
        if (!look_by_) look_by_ = now + patience_each;
      }
      if (look_by_ && now >= *look_by_) look();
    }
    return *status_;
  }

 private:
  void wait() {
    std::vector<pollfd> polled{{screen_.input(), POLLIN, 0}, {signals_.number(), POLLIN, 0}};
    for (const int descriptor : live_.descriptors()) polled.push_back({descriptor, POLLIN, 0});
    if (screen_.is_behind()) polled.push_back({screen_.output(), POLLOUT, 0});
    milliseconds pause = until(std::min(next_ask_, look_by_.value_or(next_ask_)));
    if (keys_.is_waiting()) pause = std::min(pause, escape_pause);
    const int ready = ::poll(polled.data(), polled.size(), static_cast<int>(pause.count()));
    if (ready <= 0) return press(keys_.rest());
    screen_.flush();
    if (polled[1].revents != 0) take_signal();
    if (polled[0].revents != 0) take_keys();
    if (live_.receive()) look();
    if (const auto outcomes = live_.take_outcomes(); !outcomes.empty()) {
      state_.message = outcomes.back();
      look();
    }
  }

  void take_keys() {
    bool ended = false;
    const std::string typed = screen_.read(ended);
    if (ended) status_ = 1;  // the terminal is gone
    press(keys_.feed(typed));
  }

  void take_signal() {
    signalfd_siginfo what = {};
    while (::read(signals_.number(), &what, sizeof what) == sizeof what) {
      const int signal = static_cast<int>(what.ssi_signo);
      if (signal == SIGWINCH) {
        size_ = screen_.size();
        screen_.forget();
        look();
      } else if (signal == SIGTSTP) {
        suspend();
      } else if (signal == SIGCONT) {
        screen_.enter();
        draw();
      } else {
        constexpr int signal_base = 128;
        status_ = signal_base + signal;
      }
    }
  }

  void press(const std::vector<monitor::Key>& keys) {
    if (keys.empty()) return;
    const monitor::Focus before = focus();
    for (const monitor::Key& key : keys) {
      monitor::KeyOutcome outcome = monitor::after_key(std::move(state_), key, sample_, size_);
      state_ = std::move(outcome.state);
      if (outcome.quit) status_ = outcome.interrupted ? 128 + SIGINT : 0;
      if (outcome.suspend) suspend();
      if (outcome.stop) stop(*outcome.stop);
    }
    if (focus() == before)
      draw();
    else
      look();
  }

  void stop(const std::string& id) {
    for (const monitor::JobSample& job : sample_.jobs)
      if (job.id == id) live_.stop(job);
    for (const std::string& outcome : live_.take_outcomes()) state_.message = outcome;
  }

  void suspend() {
    screen_.leave();
    ::raise(SIGSTOP);
    screen_.enter();
  }

  monitor::Focus focus() const { return monitor::focus_of(state_, sample_, size_); }

  void look() {
    look_by_.reset();
    sample_ = live_.sample(focus());
    state_ = monitor::settled(std::move(state_), sample_, size_);
    // The first sample has nothing selected; a job that is gone is replaced by another.
    if (state_.selected != sample_.focus) sample_ = live_.sample(focus());
    draw();
  }

  void draw() { screen_.show(monitor::draw(sample_, state_, size_, style_)); }

  service::LiveView& live_;
  Screen& screen_;
  const FileDescriptor& signals_;
  milliseconds interval_;
  monitor::DrawStyle style_;
  monitor::ScreenSize size_;
  monitor::Sample sample_;
  monitor::ViewState state_;
  monitor::KeyReader keys_;
  Clock::time_point next_ask_{};
  std::optional<Clock::time_point> look_by_;
  std::optional<int> status_;
};

// A user who quits right after stopping a job still has it stopped.
void finish_stops(service::LiveView& live) {
  const auto deadline = Clock::now() + patience_once;
  while (live.is_stopping() && Clock::now() < deadline) {
    std::vector<pollfd> polled;
    for (const int descriptor : live.descriptors()) polled.push_back({descriptor, POLLIN, 0});
    ::poll(polled.data(), polled.size(), static_cast<int>(until(deadline).count()));
    live.receive();
  }
}

int show_live(const TopOptions& options, service::LiveView& live, milliseconds interval) {
  if (options.json) return report({Error::Kind::bad_input, "--json is for one look", "muster top --once --json"});
  int status = 0;
  {
    const FileDescriptor signals = take_signals();
    auto screen = Screen::open();
    if (!screen) return report(screen.error());
    status = TopLoop(live, *screen, signals, interval).run();
  }
  finish_stops(live);
  return status;
}

// A wrong file is reported at once, as other commands report it; if it is not a plain file, reading it may
// block.
Result<void> check_inventory_file(const host::HostSources& sources) {
  std::error_code failure;
  if (!sources.inventory_file) return {};
  const auto status = std::filesystem::status(*sources.inventory_file, failure);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return {};
  const auto view = host::Host(sources).look(gpu::Detail::memory);
  return view || view.error().kind != Error::Kind::bad_input ? Result<void>() : view.error();
}

int top(const TopOptions& options) {
  constexpr milliseconds shortest(100);
  const auto interval = parse_duration(options.interval);
  if (!interval)
    return report({Error::Kind::bad_input, "--interval: " + interval.error().what, interval.error().remedy});
  if (*interval < shortest)
    return report({Error::Kind::bad_input,
                   fmt::format("--interval {}ms asks the driver more than ten times a second", interval->count()),
                   "use 100ms or more"});
  host::HostSources sources = host::sources_from_environment();
  if (options.inventory->file) sources.inventory_file = *options.inventory->file;
  if (auto named = check_inventory_file(sources); !named) return report(named.error());
  auto live = service::LiveView::open(sources, options.output);
  if (!live) return report(live.error());
  return options.once ? show_once(*live, options.json) : show_live(options, *live, *interval);
}

}  // namespace

void add_top_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("top", "watch GPUs, jobs and logs, live; keys to follow, stop and filter");
  auto options = std::make_shared<TopOptions>();
  options->output = usual_output();
  options->inventory = add_inventory_option(*command);
  command->add_flag("--once", options->once, "print everything once, also for pipes");
  command->add_flag("--json", options->json, "with --once: for programs");
  command->add_option("--interval", options->interval, "how often to look, as in 500ms")->capture_default_str();
  command->add_option("--output", options->output, "folder that holds the folders of runs")->capture_default_str();
  command->callback([&action, options] { action.run = [options](const Tail&) { return top(*options); }; });
}

}  // namespace muster::cli

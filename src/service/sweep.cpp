#include "service/sweep.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <set>

#include "base/text.hpp"
#include "schedule/start_pause.hpp"
#include "service/trial_run.hpp"
#include "sweep/ask_tell.hpp"
#include "sweep/best_trials.hpp"
#include "sweep/sweep_end.hpp"
#include "sweep/sweep_plot.hpp"
#include "system/files.hpp"
#include "system/shortage.hpp"

namespace muster::service {

namespace fs = std::filesystem;

namespace {

// Signals that ask for an end, blocked from here on and read instead.
class Interruption {
 public:
  Interruption() {
    sigset_t asked;
    ::sigemptyset(&asked);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction effect = {};
      ::sigaction(signal, nullptr, &effect);
      if (effect.sa_handler != SIG_IGN) ::sigaddset(&asked, signal);  // nohup has it ignored
    }
    ::pthread_sigmask(SIG_BLOCK, &asked, &before_);
    file_ = FileDescriptor(::signalfd(-1, &asked, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  // Those that came in the meantime asked for the same: the end that was reported stays.
  ~Interruption() {
    take();
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  int descriptor() const { return file_.number(); }
  // The last one that came, if any.
  std::optional<int> take() const {
    std::optional<int> signal;
    signalfd_siginfo told{};
    while (::read(file_.number(), &told, sizeof told) == static_cast<ssize_t>(sizeof told))
      signal = static_cast<int>(told.ssi_signo);
    return signal;
  }

 private:
  sigset_t before_;
  FileDescriptor file_;
};

Result<void> write_down(const SweepPlan& plan) {
  if (auto prepared = plan.folder.prepare(); !prepared) return prepared;
  if (!plan.changed) return {};
  if (plan.goes_on) return write_file_atomically(plan.folder.spec(), plan.text);
  // When several processes begin the same sweep at once, one writes its file, and the others must mean the same.
  const fs::path beside = plan.folder.path() / fmt::format("sweep.yaml.{}", ::getpid());
  if (auto written = write_file_atomically(beside, plan.text); !written) return written;
  const bool is_ours = ::link(beside.c_str(), plan.folder.spec().c_str()) == 0;
  ::unlink(beside.c_str());
  return is_ours ? Result<void>() : check_same_sweep(plan);
}

class SweepRun {
  using Clock = std::chrono::steady_clock;

 public:
  SweepRun(const SweepPlan& plan, Slots slots, const host::HostSources& sources, const host::LeaseRequest& lease,
           const SweepListener& listener)
      : plan_(plan),
        sources_(sources),
        reclaim_(lease.share ? std::chrono::milliseconds(0) : lease.reclaim),
        slots_(std::move(slots)),
        listener_(listener),
        ledger_(plan.folder),
        trials_(slots_.slots.size()),
        ended_(slots_.slots.size()),
        used_(slots_.slots.size()),
        earlier_(plan.finished.size()) {}

  Result<SweepSummary> run() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a killed keeper leaves behind is ours to end
    Result<void> done = work();
    if (!done || summary_.signal != 0) leave_all();
    // Every process is gone by now, and its memory with it.
    if (slots_.grant && slots_.grant->lease) slots_.grant->lease->settle();
    if (!done) return done.error();
    auto finished = sweep::read_observations_file(plan_.folder);
    if (!finished) return finished.error();
    summary_.finished = std::move(*finished);
    return std::move(summary_);
  }

 private:
  Result<void> work() {
    while (true) {
      if (const auto signal = interruption_.take()) {
        summary_.signal = *signal;
        return {};
      }
      if (auto filled = fill_slots(); !filled) return filled;
      if (!is_hindered_ && std::ranges::none_of(trials_, [](const auto& trial) { return trial.has_value(); }))
        return {};
      tell_progress();
      wait();
      for (std::size_t slot = 0; slot < trials_.size(); ++slot)
        if (trials_[slot])
          if (auto done = advance(slot); !done) return done;
    }
  }

  // What could not be written, on a full disk say, is tried again: nothing is lost, and no trial fails because of it.
  // Returns the error where it is not for lack of something.
  Result<void> waits_for(const Error& error) {
    if (has_room(plan_.folder.path())) return error;
    is_hindered_ = true;
    next_try_ = Clock::now() + schedule::pause_after(++hindered_);
    tell_hindrance(error.what);
    return {};
  }

  void tell_hindrance(const std::string& text) {
    if (text != last_hindrance_) listener_.note(fmt::format("{}; it is tried again until it works", text));
    last_hindrance_ = text;
  }

  std::optional<sweep::Suggestion> choose(const sweep::TrialList& trials) {
    auto end =
        sweep::reason_to_end(plan_.spec.limits, trials.finished, trials.running.size(), ledger_.seconds(), earlier_);
    std::optional<sweep::Suggestion> next;
    if (!end) next = sweep::suggest_next(plan_.spec, trials);
    if (!end && !next) end = "nothing is left to try";
    if (end) {
      summary_.end = *end;
      summary_.by_failures = sweep::ended_by_failures(plan_.spec.limits, trials.finished, earlier_);
    }
    return next;
  }

  Result<void> fill_slots() {
    if (is_hindered_ && Clock::now() < next_try_) return {};
    is_hindered_ = false;
    for (std::size_t slot = 0; slot < trials_.size() && summary_.end.empty(); ++slot) {
      if (trials_[slot]) continue;
      auto begun = ledger_.begin([this](const sweep::TrialList& trials) { return choose(trials); });
      if (!begun) return waits_for(begun.error());
      hindered_ = 0;
      if (!*begun) return {};
      if (auto started = start(**begun, slot); !started) return started;
    }
    return {};
  }

  Result<void> start(const sweep::RunningTrial& trial, std::size_t slot) {
    TrialOrder order{trial,
                     fs::absolute(plan_.folder.trial(trial.trial)),
                     fs::absolute(plan_.folder.running(trial.trial)),
                     ledger_.lock_of(trial.trial),
                     slots_.grant && slots_.grant->lease ? slots_.grant->lease->descriptors() : std::vector<int>(),
                     &plan_.spec,
                     &slots_.slots[slot],
                     plan_.folder.name(),
                     wait_for_trial_before(sources_, slots_.slots[slot], reclaim_),
                     used_[slot] != 0};
    used_[slot] = 1;
    auto started = TrialRun::start(std::move(order));
    if (!started) {
      // Not the settings' fault: nothing is recorded.
      if (auto left = ledger_.leave(trial.trial); !left) return left;
      return started.error();
    }
    trials_[slot].emplace(std::move(*started));
    return {};
  }

  void wait() const {
    std::vector<pollfd> files{{interruption_.descriptor(), POLLIN, 0}};
    for (const std::optional<TrialRun>& trial : trials_)
      if (trial) files.push_back({trial->descriptor(), POLLIN, 0});
    constexpr int between_looks = 100;  // milliseconds: at what trials report
    ::poll(files.data(), files.size(), between_looks);
  }

  Result<void> advance(std::size_t slot) {
    TrialRun& trial = *trials_[slot];
    if (!ended_[slot]) {
      auto ended = trial.advance([&](const StepScore& told) { return judge(trial, told); });
      if (!ended) return ended.error();
      if (trial.hindrance()) tell_hindrance(*trial.hindrance());
      if (!*ended) return {};
      ended_[slot] = std::move(**ended);
    } else if (Clock::now() < next_try_) {
      return {};
    }
    if (auto told = ledger_.finish(*ended_[slot]); !told) return waits_for(told.error());
    const std::string place = trial.order().slot->words();
    const sweep::Observation ended = std::move(*ended_[slot]);
    ended_[slot].reset();
    trials_[slot].reset();
    return tell_end(ended, place);
  }

  Result<sweep::Verdict> judge(const TrialRun& trial, const StepScore& told) {
    const std::string& id = trial.order().trial.trial;
    const auto reports = ledger_.report({id, told.step, told.score});
    if (reports) return sweep::judge(*plan_.spec.early_stop, plan_.spec.goal, *reports, id);
    if (auto waits = waits_for(reports.error()); !waits) return waits.error();
    return sweep::Verdict::go_on;  // without this comparison
  }

  Result<void> tell_end(const sweep::Observation& ended, const std::string& place) {
    const auto trials = ledger_.trials();
    if (!trials) return waits_for(trials.error());
    const auto best = sweep::best_trials(trials->finished, plan_.spec.goal, 1);
    best_ = best.empty() ? std::nullopt : best.front().score;
    finished_ = trials->finished.size();
    const std::string what = ended.failed() ? "failed: " + ended.reason
                             : ended.stopped_early
                                 ? fmt::format("{} {:.6g}, stopped early", plan_.spec.metric, *ended.score)
                                 : fmt::format("{} {:.6g}", plan_.spec.metric, *ended.score);
    listener_.ended(fmt::format("{}  {}  best {}  {:.1f} s  {}  {}", ended.trial, what,
                                best_ ? fmt::format("{:.6g}", *best_) : "none", ended.cost_seconds, place,
                                join(sweep::override_list(ended.settings), " ")));
    const fs::path folder = plan_.folder.path();
    for (const auto& [name, text] :
         {std::pair("history.svg", sweep::history_svg(plan_.folder.name(), plan_.spec, trials->finished)),
          std::pair("parallel.svg", sweep::parallel_svg(plan_.folder.name(), plan_.spec, trials->finished))})
      if (auto written = write_file_atomically(folder / name, text); !written) listener_.note(written.error().what);
    return {};
  }

  void tell_progress() const {
    SweepProgress progress{finished_, plan_.spec.limits.trials, best_, {}, 0};
    for (const std::optional<TrialRun>& trial : trials_) {
      if (!trial) continue;
      const auto told = trial->last_report();
      progress.running.push_back(fmt::format("{} on {}, {:.0f} s{}", trial->order().trial.trial,
                                             trial->order().slot->words(), trial->seconds(),
                                             told ? fmt::format(", step {}: {:.4g}", told->step, told->score) : ""));
      progress.seconds = std::max(progress.seconds, trial->seconds());
    }
    listener_.progress(progress);
  }

  // Ends what runs, and records none of it.
  void leave_all() {
    std::set<std::string> said;  // a full disk fails them all alike
    for (std::optional<TrialRun>& trial : trials_)
      if (trial) trial->end();
    for (std::optional<TrialRun>& trial : trials_) {
      if (!trial) continue;
      trial->wait();
      if (const auto& ended = ended_[static_cast<std::size_t>(&trial - trials_.data())]; ended && ledger_.finish(*ended)) {
        trial.reset();
        continue;
      }
      if (auto left = ledger_.leave(trial->order().trial.trial); !left && said.insert(left.error().what).second)
        listener_.note(left.error().what);
      trial.reset();
    }
  }

  const SweepPlan& plan_;
  const host::HostSources& sources_;
  std::chrono::milliseconds reclaim_;
  Slots slots_;
  const SweepListener& listener_;
  sweep::FileLedger ledger_;
  std::vector<std::optional<TrialRun>> trials_;           // by slot
  std::vector<std::optional<sweep::Observation>> ended_;  // by slot: not in the ledger yet
  std::vector<char> used_;                       // by slot: a trial has run there
  std::size_t earlier_;                          // trials that had ended when this command began
  std::size_t finished_ = earlier_;
  std::optional<double> best_;
  bool is_hindered_ = false;  // the ledger could not be written
  int hindered_ = 0;          // times in a row
  Clock::time_point next_try_;
  std::string last_hindrance_;
  Interruption interruption_;
  SweepSummary summary_;
};

}  // namespace

Result<SweepSummary> run_sweep(host::Host& host, const SweepRequest& request, const SweepPlan& plan,
                               const SweepListener& listener) {
  auto slots = take_slots(host, request.slots, request.lease);
  if (!slots) return slots.error();
  if (slots->grant)
    for (const std::string& text : slots->grant->notes) listener.note(text);
  for (const std::string& text : slots->notes) listener.note(text);
  if (auto written = write_down(plan); !written) return written.error();
  return SweepRun(plan, std::move(*slots), host.sources(), request.lease, listener).run();
}

Result<void> serve_sweep(const SweepPlan& plan, const std::function<void(const std::string&)>& note) {
  if (auto written = write_down(plan); !written) return written;
  sweep::FileLedger ledger(plan.folder);
  sweep::AskTell session(plan.spec, ledger, [&ledger] { return ledger.seconds(); });
  note(fmt::format("{}: one JSON object a line, as in {{\"ask\": true}}: docs/sweep.md", plan.folder.path().string()));
  return sweep::serve_ask_tell(session, std::cin, std::cout);
}

}  // namespace muster::service

#include "service/trial_run.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "system/files.hpp"
#include "system/process.hpp"
#include "system/process_handle.hpp"
#include "system/shortage.hpp"
#include "system/socket.hpp"
#include "base/text.hpp"
#include "launch/keeper/oom_kills.hpp"
#include "launch/keeper/signal_name.hpp"
#include "launch/worker_environment.hpp"
#include "queue/attempt_file.hpp"
#include "queue/job_keeper.hpp"
#include "queue/orphans.hpp"
#include "schedule/start_pause.hpp"
#include "sweep/best_trials.hpp"
#include "sweep/trial_command.hpp"

namespace muster::service {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds grace(5);

std::uintmax_t size_of(const fs::path& file) {
  std::error_code failure;
  const std::uintmax_t bytes = fs::file_size(file, failure);
  return failure ? 0 : bytes;
}

// Note [A port for each trial]
// Programs that meet over MASTER_PORT (torch.distributed's env://) would all use the same one. The port is bound here
// for as long as the trial lasts, so that the kernel gives it to no one else, and not listened on, with SO_REUSEADDR
// set afterwards, so that the trial's own server, which has it set too, can bind it all the same.
FileDescriptor reserve_port() {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  const int yes = 1;
  if (!socket || ::bind(socket.number(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
      ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0)
    return {};
  return socket;
}

// Its last output, used as a reason. muster's own commands print what to try after what went wrong.
std::string last_line(const std::string& output) {
  const std::vector<std::string> lines = split(output, '\n');
  for (std::size_t i = lines.size(); i-- > 0;)
    if (const auto line = trim(lines[i]); !line.empty() && !line.starts_with("try: "))
      return std::string(line.substr(0, 200));
  return "";
}

}  // namespace

std::vector<std::string> training_command(const std::string& program, const sweep::Settings& settings) {
  std::vector<std::string> command{program, "train"};
  std::ranges::move(sweep::override_list(settings), std::back_inserter(command));
  return command;
}

Result<TrialRun> TrialRun::start(TrialOrder order) {
  TrialRun run(std::move(order));
  const fs::path& folder = run.order_.folder;
  run.phases_ = run.order_.spec->evaluate.empty() ? 1 : 2;
  run.reports_.emplace(folder / "reports.jsonl", run.order_.spec->metric);
  if (run.is_own_training()) run.metrics_.emplace(folder, run.order_.spec->metric);
  if (auto tried = run.try_to_start(); !tried) return tried.error();
  return run;
}

// What exists before its first command.
std::optional<queue::NotStarted> TrialRun::prepare() {
  const fs::path& folder = order_.folder;
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) return queue::NotStarted::because(fmt::format("cannot make {}", folder.string()), failure.value());
  // What an interrupted attempt left behind must not pass for the result of this one.
  for (const char* old : {"result.json", "reports.jsonl"}) fs::remove(folder / old, failure);
  const std::string settings = sweep::yaml_patch(order_.trial.settings);
  using Cause = queue::NotStarted::Cause;
  if (auto written = write_file_atomically(folder / "settings.yaml", settings); !written)
    return queue::NotStarted{written.error().what, has_room(folder) ? Cause::command : Cause::shortage};
  log_begin_ = size_of(folder / "log");
  if (!port_) port_ = reserve_port();
  is_prepared_ = true;
  return std::nullopt;
}

void TrialRun::postpone(const std::string& reason) {
  hindrance_ = reason;
  next_start_ = Clock::now() + schedule::pause_after(++postponed_);
}

// An Error where it can never be started.
Result<void> TrialRun::try_to_start() {
  auto failed = is_prepared_ ? std::nullopt : prepare();
  if (!failed) failed = start_phase();
  if (failed && failed->cause == queue::NotStarted::Cause::command)
    return Error{Error::Kind::failed, failed->reason, "check the sweep's command and the permissions of its folder"};
  if (failed)
    postpone(failed->reason);
  else
    hindrance_.reset();
  return {};
}

std::vector<std::string> TrialRun::environment() const {
  launch::Environment variables = launch::current_environment();
  // Which GPUs a trial has follows from its slot alone.
  for (const char* name : {"GPU_LIST", "MUSTER_DISTRIBUTED_GPU_IDS", "MUSTER_DISTRIBUTED_NUM_GPUS"})
    variables.erase(name);
  for (const auto& [name, value] : order_.slot->environment) variables[name] = value;
  variables["MUSTER_SWEEP"] = order_.sweep;
  variables["MUSTER_TRIAL"] = order_.trial.trial;
  variables["MUSTER_TRIAL_FOLDER"] = order_.folder.string();
  variables["MUSTER_REPORT"] = (order_.folder / "reports.jsonl").string();
  variables["MUSTER_PHASE"] = phase_ == 0 ? "train" : "evaluate";
  if (port_) {
    variables["MASTER_ADDR"] = "127.0.0.1";
    variables["MASTER_PORT"] = std::to_string(local_address(port_).port());
  }
  if (phase_ > 0)
    if (const auto run = newest_run(order_.folder)) variables["MUSTER_RUN_FOLDER"] = run->string();
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

Result<std::vector<std::string>> TrialRun::command_of_phase() const {
  if (phase_ == 0 && is_own_training()) {
    const auto program = own_program();
    if (!program) return program.error();
    std::vector<std::string> command = training_command(program->string(), order_.trial.settings);
    for (const std::string& word : {std::string("--output"), order_.folder.string(), std::string("--name"),
                                    std::string("run"), std::string("--resume"), std::string("auto")})
      command.push_back(word);
    if (order_.slot->on_cpu)
      command.insert(command.end(), {"--device", "cpu"});
    else
      command.insert(command.end(), {"--num-gpus", std::to_string(order_.slot->gpus.size())});
    return command;
  }
  const std::vector<std::string> variables = environment();
  const auto value_of = [&](std::string_view name) -> std::optional<std::string> {
    const std::string beginning = std::string(name) + "=";
    for (const std::string& entry : variables)
      if (entry.starts_with(beginning)) return entry.substr(beginning.size());
    return std::nullopt;
  };
  return sweep::expand_command(phase_ == 0 ? order_.spec->command : order_.spec->evaluate, order_.trial.settings,
                               {order_.spec->program, value_of});
}

std::optional<queue::NotStarted> TrialRun::start_phase() {
  auto command = command_of_phase();
  if (!command) return queue::NotStarted{command.error().what};
  FileDescriptor lock(::fcntl(order_.lock, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!lock) return queue::NotStarted::because("cannot start a trial", errno);
  if (auto hindrance = queue::reserve_room(lock, order_.attempt)) return hindrance;
  attempt_begin_ = static_cast<std::size_t>(size_of(order_.attempt));
  queue::KeeperOrder order;
  order.command = std::move(*command);
  order.environment = environment();
  order.folder = fs::current_path().string();
  order.log = order_.folder / "log";
  order.attempt = std::move(lock);
  order.grace = grace;
  order.umask = current_umask();
  order.oom_kills = launch::oom_kills();
  order.locks = order_.leases;
  order.ends_with = ::getpid();
  if (order_.follows || phase_ > 0) order.grant.before_start = order_.wait_for_memory;
  const auto pid = queue::start_keeper(std::move(order));
  if (!pid) return queue::NotStarted{pid.error().what, queue::NotStarted::Cause::shortage};
  pid_ = *pid;
  ending_.reset();
  keeper_ = open_process(pid_);
  last_sign_ = Clock::now();
  if (phase_ == 0) begun_ = last_sign_;
  return std::nullopt;
}

bool TrialRun::has_ended() {
  if (pid_ != 0 && ::waitpid(pid_, nullptr, WNOHANG) != pid_) return false;
  pid_ = 0;
  if (ending_) return true;
  const auto text = read_file(order_.attempt);
  if (!text) return false;  // for lack of descriptors, perhaps: nothing is concluded from an unreadable file
  ending_ = queue::parse_attempt(std::string_view(*text).substr(std::min(attempt_begin_, text->size())));
  // A keeper that was killed reported nothing; its processes are ended here.
  if (!ending_->end && ending_->keeper)
    while (queue::kill_marked_processes(*ending_->keeper) + queue::kill_orphans() > 0) ::usleep(2000);
  return true;
}

void TrialRun::end() {
  if (pid_ == 0) return;
  if (why_ == Why::nothing) why_ = Why::asked;
  ::kill(pid_, SIGTERM);
}

void TrialRun::wait() {
  while (!has_ended()) wait_for_end(keeper_, Clock::now() + std::chrono::milliseconds(100));
}

Result<void> TrialRun::read_reports(const OnReport& on_report) {
  std::vector<StepScore> told = reports_->next();
  if (metrics_ && order_.spec->early_stop) std::ranges::move(metrics_->next(), std::back_inserter(told));
  for (const StepScore& report : told)
    if (auto heard = hear(report, on_report); !heard) return heard;
  return {};
}

Result<void> TrialRun::hear(const StepScore& report, const OnReport& on_report) {
  if (why_ == Why::early_stop) return {};  // its score is the one that stopped it
  last_report_ = report;
  if (!order_.spec->early_stop) return {};
  const auto& rungs = order_.spec->early_stop->rungs;
  const auto reached = static_cast<std::size_t>(std::ranges::upper_bound(rungs, report.step) - rungs.begin());
  if (reached <= rungs_) return {};
  rungs_ = reached;
  const auto verdict = on_report(report);
  if (!verdict) return verdict.error();
  const bool has_ended_already = pid_ == 0;
  if (*verdict == sweep::Verdict::go_on || why_ != Why::nothing || has_ended_already) return {};
  why_ = Why::early_stop;
  ::kill(pid_, SIGTERM);
  return {};
}

// Anything it writes is a sign of life.
void TrialRun::look_for_life() {
  if (!order_.spec->heartbeat || why_ != Why::nothing) return;
  std::uintmax_t written = size_of(order_.folder / "log") + size_of(order_.folder / "reports.jsonl");
  if (metrics_)
    if (const auto run = newest_run(order_.folder)) written += size_of(*run / "metrics.csv");
  if (written != life_) {
    life_ = written;
    last_sign_ = Clock::now();
  }
  if (std::chrono::duration<double>(Clock::now() - last_sign_).count() <= *order_.spec->heartbeat) return;
  why_ = Why::silence;
  if (pid_ != 0) ::kill(pid_, SIGTERM);
}

void TrialRun::look_at_time() {
  const auto& most = order_.spec->limits.trial_timeout;
  if (!most || why_ != Why::nothing || seconds() <= *most) return;
  why_ = Why::timeout;
  if (pid_ != 0) ::kill(pid_, SIGTERM);
}

std::string TrialRun::output() const {
  constexpr std::uintmax_t enough = 1 << 20;
  const std::uintmax_t bytes = size_of(order_.folder / "log");
  const std::uintmax_t begin = std::max(log_begin_, bytes > enough ? bytes - enough : 0);
  return read_from(order_.folder / "log", static_cast<std::size_t>(begin));
}

// For the command that has just ended.
std::optional<std::string> TrialRun::failure_of_phase(const queue::AttemptRecord& record) const {
  const char* phase = phase_ == 0 ? "training" : "evaluation";
  if (!record.end) return fmt::format("{}: the process that kept it was killed", phase);
  if (const auto* failed = std::get_if<queue::NotStarted>(&*record.end))
    return fmt::format("{}: {}", phase, failed->reason);
  const auto& [how, code] = std::get<queue::CommandEnd>(*record.end);
  using How = std::remove_cvref_t<decltype(how)>;
  if (how == How::killed) return fmt::format("{}: killed by {}", phase, launch::signal_text(code));
  if (how == How::out_of_memory) return fmt::format("{}: out of memory: {}", phase, last_line(output()));
  if (code != 0) return fmt::format("{}: exit status {}: {}", phase, code, last_line(output()));
  return std::nullopt;
}

Result<std::optional<sweep::Observation>> TrialRun::advance(const OnReport& on_report) {
  if (hindrance_ && why_ == Why::nothing) {
    if (Clock::now() < next_start_) return std::optional<sweep::Observation>();
    if (auto tried = try_to_start(); !tried) return tried.error();
    return std::optional<sweep::Observation>();
  }
  // Checked first: what it wrote before its end is read afterwards.
  const bool ended = has_ended();
  constexpr std::chrono::milliseconds between_looks(250);
  if (!ended && Clock::now() < next_look_) return std::optional<sweep::Observation>();
  next_look_ = Clock::now() + between_looks;
  if (auto read = read_reports(on_report); !read) return read.error();
  if (!ended) {
    look_for_life();
    look_at_time();
    return std::optional<sweep::Observation>();
  }
  if (why_ == Why::nothing) {
    if (ending_->may_be_repeated()) {
      const auto* failed = ending_->end ? std::get_if<queue::NotStarted>(&*ending_->end) : nullptr;
      postpone(failed != nullptr ? failed->reason : "its keeper ended before it began");
      return std::optional<sweep::Observation>();
    }
    postponed_ = 0;
    failure_ = failure_of_phase(*ending_);
  }
  if (why_ == Why::nothing && !failure_ && phase_ + 1 < phases_) {
    ++phase_;
    if (auto tried = try_to_start(); !tried)
      failure_ = tried.error().what;
    else
      return std::optional<sweep::Observation>();
  }
  return std::optional(observe());
}

sweep::Observation TrialRun::observe() const {
  sweep::Observation observation{order_.trial.trial, order_.trial.settings};
  observation.cost_seconds = seconds();
  if (why_ == Why::early_stop) {
    observation.stopped_early = true;
    observation.score = last_report_->score;
    return observation;
  }
  if (why_ == Why::silence) {
    observation.reason = fmt::format("no sign of life for {:g} s", *order_.spec->heartbeat);
    return observation;
  }
  if (why_ == Why::timeout) {
    observation.reason =
        fmt::format("it took longer than {:g} s (limits.trial_timeout)", *order_.spec->limits.trial_timeout);
    return observation;
  }
  if (failure_) {
    observation.reason = *failure_;
    return observation;
  }
  Result<double> score = Error{};
  if (!is_own_training() || phases_ > 1) score = score_of_command(order_.folder, output(), order_.spec->metric);
  if (!score && is_own_training()) {
    auto of_training = score_of_training(order_.folder, order_.spec->metric);
    if (of_training || phases_ == 1) score = std::move(of_training);
  }
  if (!score)
    observation.reason = score.error().what;
  else if (!std::isfinite(*score))
    observation.reason = fmt::format("its {} is {}", order_.spec->metric, *score);
  else
    observation.score = *score;
  return observation;
}

}  // namespace muster::service

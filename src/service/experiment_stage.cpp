// One stage of an experiment's job: what it begins with, its command, and what it left behind.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "experiment/experiment_file.hpp"
#include "experiment/settings.hpp"
#include "experiment/stage_command.hpp"
#include "experiment/variables.hpp"
#include "host/described_gpus.hpp"
#include "service/experiment.hpp"
#include "service/experiment_data.hpp"
#include "store/run_folder.hpp"
#include "system/allotted_cores.hpp"
#include "system/exec_arguments.hpp"
#include "system/file_lock.hpp"
#include "system/files.hpp"
#include "system/process.hpp"
#include "system/signals.hpp"

namespace muster::service {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using experiment::ExperimentJob;
using experiment::ExperimentSpec;
using experiment::JobFolder;
using experiment::StageKind;
using experiment::StageRecord;
using experiment::StartRecord;

Error failed(std::string what, std::string remedy = "") {
  return {Error::Kind::failed, std::move(what), std::move(remedy)};
}

std::string mask_of_this_process() {
  const char* mask = std::getenv("CUDA_VISIBLE_DEVICES");
  return mask == nullptr ? "" : mask;
}

int gpus_in(const std::string& mask) { return mask.empty() ? 0 : static_cast<int>(std::ranges::count(mask, ',')) + 1; }

// Runs a command with this process's output. A job is ended by signalling its whole group, so the command gets the
// signal itself; this process waits to record how it went.
Result<int> run_command(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  std::vector<char*> arguments = pointers_for_exec(words);
  constexpr int endings[] = {SIGTERM, SIGINT, SIGHUP};
  const BlockedSignals blocked;
  const pid_t child = ::fork();
  if (child < 0) return failed(fmt::format("cannot start a process: {}", system_reason()));
  if (child == 0) {
    give_every_signal_its_default_effect();
    unblock_every_signal();
    ::execvp(arguments[0], arguments.data());
    fmt::print(stderr, "muster: cannot run {}: {}\n", command.front(), system_reason());
    ::_exit(127);
  }
  // Signals that came before the command existed are passed on; from here on it gets its own.
  sigset_t came;
  ::sigpending(&came);
  for (const int number : endings) {
    if (::sigismember(&came, number) == 1) ::kill(child, number);
    ::signal(number, SIG_IGN);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  constexpr int signal_base = 128;
  return WIFSIGNALED(status) ? signal_base + WTERMSIG(status) : WEXITSTATUS(status);
}

class StageRun {
 public:
  StageRun(const ExperimentPlan& plan, const ExperimentJob& job, StageKind kind)
      : plan_(plan), spec_(*plan.spec), job_(job), kind_(kind), folder_(plan.folder, job.id) {}

  Result<int> run() {
    const auto before = folder_.read(kind_);
    if (!before) return before.error();
    if (*before && (*before)->done) {
      fmt::print("{} {} is done already\n", job_.id.text, name(kind_));
      return 0;
    }
    folder_.forget(kind_);
    const auto begun = Clock::now();
    const auto command = prepare();
    Result<int> status = command ? run_command(*command) : Result<int>(command.error());
    StageRecord record;
    record.gpus = mask_of_this_process();
    if (command) record.command = *command;
    if (status && *status == 0)
      if (auto kept = keep_output(record); !kept) status = kept.error();
    record.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    return conclude(std::move(record), status);
  }

 private:
  Result<int> conclude(StageRecord record, const Result<int>& status) {
    record.done = status && *status == 0;
    if (!status) record.reason = status.error().what;
    // A stage that was told to stop has not failed: it is as if it had not begun.
    constexpr int stopped[] = {128 + SIGTERM, 128 + SIGINT};
    if (status && std::ranges::find(stopped, *status) != std::end(stopped)) return *status;
    if (status) {
      record.reason =
          *status > 128 ? fmt::format("killed by signal {}", *status - 128) : fmt::format("exit status {}", *status);
      if (const char* id = std::getenv("MUSTER_JOB")) record.reason += fmt::format(" (muster logs {})", id);
    }
    if (auto written = folder_.write(kind_, record); !written) return written.error();
    if (auto gathered = gather_results(plan_); !gathered) return gathered.error();
    return status;
  }

  Result<std::vector<std::string>> prepare() {
    if (auto ready = check_stages_before(); !ready) return ready.error();
    experiment::StageFacts facts;
    const auto program = own_program();
    if (!program) return program.error();
    facts.program = program->string();
    facts.gpus = gpus_in(mask_of_this_process());
    const auto described = described_gpus();
    if (!described) return described.error();
    if (*described) {
      facts.ranks_instead = std::clamp(facts.gpus, 1, allotted_cores());
      fmt::print("{}: its own stages compute on the CPU\n", host::described_gpus_words(**described));
    }
    const auto start = kind_ == StageKind::evaluate ? evaluated_model() : start_model();
    if (!start) return start.error();
    facts.model = start->model;
    facts.is_trained = start->from_round > 0;
    auto command = experiment::stage_command(spec_, job_, kind_, folder_, facts);
    if (!command) return command.error();
    fmt::print("{} {}: {}\n", job_.id.text, name(kind_), join(*command, " "));
    std::fflush(stdout);
    return command;
  }

  // The file of the GPUs that the stage was given, where they are not in this machine.
  static Result<std::optional<fs::path>> described_gpus() {
    host::Host host(host::sources_from_environment());
    if (!host.sources().inventory_file) return std::optional<fs::path>();
    const auto view = host.look(gpu::Detail::memory);
    if (!view) return view.error();
    return host::file_of_described_gpus(host.sources(), *view);
  }

  Result<void> check_stages_before() const {
    for (const StageKind kind : spec_.wanted_stages()) {
      if (kind == kind_) return {};
      const auto record = folder_.read(kind);
      if (!record) return record.error();
      if (!*record || !(*record)->done)
        return failed(fmt::format("{} has to be done before {}, and is not", name(kind), name(kind_)));
    }
    return {};
  }

  // What the family names; if that is a path with files, with the digest of its weights, which is computed once.
  Result<StartRecord> family_model() const {
    const experiment::Settings settings = settings_for(spec_, job_, StageKind::generate);
    const experiment::Setting* path = find(settings, "model.path");
    StartRecord start;
    if (path == nullptr) return start;
    start.model = path->value;
    const auto recorded = folder_.read_start();
    if (recorded && *recorded && (*recorded)->model == start.model && (*recorded)->from_round == 0) return **recorded;
    if (auto digest = experiment::digest_of_weights(start.model)) start.sha256 = std::move(*digest);
    return start;
  }

  // A model that a stage trained, which has to be the one that the stage recorded.
  Result<StartRecord> trained_model(const JobFolder& folder, int round) const {
    const auto record = folder.read(StageKind::train);
    if (!record) return record.error();
    if (!*record || !(*record)->done)
      return failed(fmt::format("round {} has no trained model: {} says so", round, folder.path().string()));
    if (!(*record)->model) return StartRecord{"", std::nullopt, round};
    StartRecord start{*(*record)->model, (*record)->sha256, round};
    const auto digest = experiment::digest_of_weights(start.model);
    if (!digest)
      return failed(fmt::format("the model of round {}: {}", round, digest.error().what),
                    fmt::format("rm {}/train.json trains it again", folder.path().string()));
    if (*digest != start.sha256.value_or(""))
      return failed(fmt::format("the weights of {} are {}, and round {} ended with {}", start.model, *digest, round,
                                start.sha256.value_or("unknown ones")),
                    fmt::format("rm {}/train.json trains them again", folder.path().string()));
    return start;
  }

  // What the job begins with, recorded by its first stage; every later one begins with the same.
  Result<StartRecord> start_model() const {
    const bool goes_on = job_.round > 1 && spec_.stage(StageKind::train).wanted;
    const ExperimentJob* before = goes_on ? &job_ - 1 : nullptr;
    auto start = goes_on ? trained_model(JobFolder(plan_.folder, before->id), before->round) : family_model();
    if (!start) return start;
    const auto recorded = folder_.read_start();
    if (!recorded) return recorded.error();
    if (*recorded && **recorded != *start && kind_ != spec_.wanted_stages().front())
      return failed(fmt::format("the job began with {} (sha256 {}), and {} would begin with {} (sha256 {})",
                                (*recorded)->model, (*recorded)->sha256.value_or("unknown"), name(kind_), start->model,
                                start->sha256.value_or("unknown")),
                    fmt::format("rm -r {} to do the job again", folder_.path().string()));
    if (auto written = folder_.write_start(*start); !written) return written.error();
    return start;
  }

  Result<StartRecord> evaluated_model() const {
    if (!spec_.stage(StageKind::train).wanted) return start_model();
    return trained_model(folder_, job_.round);
  }

  Result<void> keep_output(StageRecord& record) const {
    const bool is_own = spec_.stage(kind_).is_own();
    if (is_own && kind_ == StageKind::generate) {
      const auto prompts = std::ranges::find(record.command, "-p") + 1;  // with ${…} expanded
      return write_generated_data(*prompts, folder_.answers(), job_.dataset->keep, folder_.data());
    }
    if (kind_ == StageKind::train) return keep_model(record, is_own);
    if (!is_own && !names_output()) return {};
    const fs::path output = folder_.output(kind_);
    std::error_code failure;
    if (!fs::exists(output, failure))
      return failed(fmt::format("the command ended well, but there is no {}", output.string()),
                    "let it write what it found to ${output}");
    if (kind_ != StageKind::evaluate) return {};
    const auto text = read_file(output);
    if (!text) return text.error();
    if (!nlohmann::json::parse(*text, nullptr, false).is_object())
      return failed(fmt::format("{} is not a JSON object", output.string()), "let the evaluation write one to ${output}");
    return {};
  }

  bool names_output() const {
    return std::ranges::any_of(spec_.stage(kind_).command, [](const std::string& word) {
      const auto names = experiment::variables_in(word);
      return names && names->contains("output");
    });
  }

  Result<void> keep_model(StageRecord& record, bool is_own) const {
    if (!is_own && !names_output()) return {};
    fs::path model = folder_.output(kind_);
    if (is_own) {
      const auto found = finished_run();
      if (!found) return found.error();
      model = *found;
    }
    auto digest = experiment::digest_of_weights(model);
    if (!digest)
      return failed(fmt::format("the command ended well, but left no model: {}", digest.error().what),
                    "let it write a model to ${output}");
    record.model = model.string();
    record.sha256 = std::move(*digest);
    return {};
  }

  // The model of the newest run that has finished.
  Result<fs::path> finished_run() const {
    std::optional<store::RunFolder> newest;
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(folder_.train(), failure)) {
      const auto run = store::RunFolder::open(entry.path());
      if (!run || !fs::is_directory(run->model(), failure)) continue;
      const auto result = run->read_result();
      if (!result || !*result || (*result)->status != store::Ending::done) continue;
      if (!newest || newest->created() < run->created()) newest = *run;
    }
    if (newest) return newest->model();
    return failed(fmt::format("no run in {} has come to its end", folder_.train().string()));
  }

  const ExperimentPlan& plan_;
  const ExperimentSpec& spec_;
  const ExperimentJob& job_;
  StageKind kind_;
  JobFolder folder_;
};

// Held by the command, too, so that the stage is not begun a second time while any of its processes lives. Under a high
// number, since scripts use the low ones themselves.
Result<void> hold_job(const JobFolder& folder) {
  std::error_code failure;
  fs::create_directories(folder.path(), failure);
  auto lock = try_to_lock_file(folder.lock());
  if (!lock) return lock.error();
  if (!*lock)
    return Error{Error::Kind::refused, fmt::format("another process works on {}", folder.path().string()),
                 "muster queue tells which"};
  constexpr int out_of_the_way = 200;
  if (::fcntl(lock->number(), F_DUPFD, out_of_the_way) < 0)
    return failed(fmt::format("cannot keep {}: {}", folder.lock().string(), system_reason()), "ulimit -n 1024");
  return {};
}

}  // namespace

Result<int> run_stage(const fs::path& folder, const std::string& job, const std::string& stage) {
  const fs::path file = folder / "experiment.yaml";
  const auto text = read_file(file);
  if (!text) return text.error();
  auto spec = experiment::read_experiment(*text, file.string());
  if (!spec) return spec.error();
  const auto kind = experiment::stage_of(stage);
  ExperimentPlan plan;
  plan.folder = folder;
  plan.spec = std::make_unique<const ExperimentSpec>(std::move(*spec));
  auto jobs = experiment::jobs_of(*plan.spec, schedule::most_gpus);
  if (!jobs) return jobs.error();
  plan.jobs = std::move(*jobs);
  const auto found =
      std::ranges::find(plan.jobs, job, [](const ExperimentJob& one) { return std::string_view(one.id.text); });
  if (!kind || found == plan.jobs.end() || !plan.spec->stage(*kind).wanted)
    return Error{Error::Kind::bad_input, fmt::format("{} has no {}.{}", file.string(), job, stage),
                 "muster run EXPERIMENT.yaml --dry-run lists the stages"};
  if (auto held = hold_job(JobFolder(folder, found->id)); !held) return held.error();
  return StageRun(plan, *found, *kind).run();
}

}  // namespace muster::service

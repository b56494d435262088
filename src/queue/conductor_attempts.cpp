// Jobs that were started: followed, taken over from an earlier conductor, and concluded.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "system/process_handle.hpp"
#include "queue/conductor.hpp"
#include "queue/orphans.hpp"

namespace muster::queue {
namespace {

using schedule::JobId;
using schedule::JobRecord;
using schedule::JobState;

struct FoundKeeper {
  FileDescriptor handle;
  bool is_gone = false;  // known for certain; without a handle: perhaps only none was available
};

FoundKeeper find_keeper(const ProcessIdentity& identity) {
  FoundKeeper found;
  found.handle = open_process(identity.pid);
  if (!found.handle) {
    found.is_gone = errno == ESRCH;
    return found;
  }
  const auto status = read_process_status(identity.pid);
  pollfd ended{found.handle.number(), POLLIN, 0};
  found.is_gone = (status && (status->identity != identity || status->ended)) || ::poll(&ended, 1, 0) == 1;
  if (found.is_gone || !status) found.handle = FileDescriptor();
  return found;
}

std::optional<std::chrono::system_clock::time_point> touched(const std::filesystem::path& file) {
  struct stat facts = {};
  if (::stat(file.c_str(), &facts) != 0) return std::nullopt;
  return std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
      std::chrono::seconds(facts.st_mtim.tv_sec) + std::chrono::nanoseconds(facts.st_mtim.tv_nsec)));
}

}  // namespace

// Jobs that the previous conductor ordered to start: they run, have ended, or never began.
void Conductor::recover() {
  for (const JobRecord& record : scheduler().jobs().all())
    if (has_gpus(record.state)) follow(record.job.id, record.attempts);
}

Conductor::Running& Conductor::follow(const JobId& job, int attempt) {
  return running_.insert_or_assign(next_token_++, Running{job, attempt, {}, false}).first->second;
}

// Processes of an attempt may be left as long as its file is locked; until then it holds its GPUs. A keeper that was
// killed has left processes behind, and those may have closed what they inherited: they are searched for by their mark,
// and, if they have cleared their environment too, among the children of this process, to which the kernel gave them
// if it is the one that started their keeper.
void Conductor::examine(Token token) {
  Running& running = running_.at(token);
  const AttemptView view = look_at_attempt(folder_.attempt(running.job, running.attempt));
  if (view.lock == LockState::unknown) return;  // the next look may know
  if (view.lock != LockState::locked) {
    const bool was_killed = view.record.keeper && !view.record.end;
    if (!was_killed || kill_marked_processes(*view.record.keeper) + kill_orphans() == 0) conclude(token, view);
    return;
  }
  if (running.keeper || !view.record.keeper) return;
  FoundKeeper found = find_keeper(*view.record.keeper);
  if (found.is_gone) kill_marked_processes(*view.record.keeper);
  if (!found.handle || !wakeups_.watch(found.handle, token)) return;
  running.keeper = std::move(found.handle);
  const auto job = scheduler().jobs().find(running.job);
  if (job && scheduler().jobs().at(*job).state == JobState::stopping) signal_process(running.keeper, SIGTERM);
}

void Conductor::conclude(Token token, const AttemptView& view) {
  const Running running = std::move(running_.at(token));
  running_.erase(token);
  const AttemptRecord& record = view.record;
  if (!record.end && !record.keeper && !record.is_damaged)
    return conclude_unbegun(running, view.lock == LockState::missing);
  if (!record.end) return tell(schedule::Ended{running.job, schedule::HowEnded::killed, SIGKILL});
  if (const auto* end = std::get_if<CommandEnd>(&*record.end))
    tell(schedule::Ended{running.job, end->how, end->code});
  else
    tell_not_started(running.job, std::get<NotStarted>(*record.end));
}

// Only what is wrong with the command itself is a failure of the job.
void Conductor::tell_not_started(const JobId& job, const NotStarted& hindrance) {
  if (hindrance.cause == NotStarted::Cause::command) return tell(schedule::StartFailed{job, hindrance.reason});
  write_log_once(fmt::format("job {} is not started yet: {}", job.text, hindrance.reason));
  const std::vector<schedule::GpuNumber> gpus = scheduler().jobs().at(*scheduler().jobs().find(job)).gpus;
  if (hindrance.cause == NotStarted::Cause::shortage || gpus.empty())
    return tell(schedule::Postponed{job, hindrance.reason});
  for (const schedule::GpuNumber gpu : gpus) set_aside(gpu, fmt::format("nobody, but {}", hindrance.reason));
}

// Nothing was recorded about an attempt that an earlier conductor ordered: it was killed before it could start
// it, and it is started now. Unless the machine crashed in between: then it may have begun, and what it had written
// may be lost. Better killed than run twice.
void Conductor::conclude_unbegun(const Running& running, bool is_missing) {
  const JobRecord& job = scheduler().jobs().at(*scheduler().jobs().find(running.job));
  if (running.is_own && is_missing)
    return tell(schedule::StartFailed{running.job, "its folder in jobs has vanished, and with it how it went"});
  if (running.is_own) return tell(schedule::Postponed{running.job, "its keeper ended before it began"});
  if (machine_was_down_) return tell(schedule::Ended{running.job, schedule::HowEnded::killed, SIGKILL});
  if (job.state == JobState::running)
    journal_.decide_again(schedule::Start{running.job, job.gpus, running.attempt});
  else
    tell(schedule::Postponed{running.job, "it was stopped before it began"});
}

void Conductor::examine_lingering() {
  std::vector<Token> lingering;
  for (const auto& [token, running] : running_)
    if (!running.keeper) lingering.push_back(token);
  for (const Token token : lingering) examine(token);
}

bool Conductor::has_lingering() const {
  return std::ranges::any_of(running_, [](const auto& entry) { return !entry.second.keeper; });
}

// Signs of life of jobs with a heartbeat that is due: their log grew, or they touched their file.
void Conductor::look_for_signs() {
  const auto deadline = scheduler().next_deadline();
  if (!deadline || *deadline > journal_.moment()) return;
  std::vector<schedule::Heartbeat> signs;
  for (const auto& [token, running] : running_) {
    const auto job = scheduler().jobs().find(running.job);
    if (!job) continue;
    const JobRecord& record = scheduler().jobs().at(*job);
    if (record.state != JobState::running || !record.job.heartbeat ||
        *record.last_sign + *record.job.heartbeat > journal_.moment())
      continue;
    std::optional<std::chrono::system_clock::time_point> last;
    for (const auto& file : {folder_.log(running.job), folder_.heartbeat(running.job)})
      if (const auto moment = touched(file); moment && (!last || *moment > *last)) last = moment;
    if (!last) continue;
    if (const auto moment = journal_.clock().moment_of(*last); moment > *record.last_sign)
      signs.push_back({running.job, moment});
  }
  for (schedule::Heartbeat& sign : signs) tell(std::move(sign));
}

}  // namespace muster::queue

// What the scheduler decided, carried out.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "system/file_lock.hpp"
#include "system/files.hpp"
#include "system/process_handle.hpp"
#include "system/shortage.hpp"
#include "base/text.hpp"
#include "launch/keeper/oom_kills.hpp"
#include "queue/conductor.hpp"
#include "queue/job_keeper.hpp"

namespace muster::queue {

// What was decided while others were carried out may have changed in the meantime: a GPU turned out to be held, and its
// job is in the line again.
bool Conductor::is_wanted(const schedule::Start& start) const {
  const auto job = scheduler().jobs().find(start.job);
  if (!job) return false;
  const schedule::JobRecord& record = scheduler().jobs().at(*job);
  return has_gpus(record.state) && record.attempts == start.attempt && record.gpus == start.gpus &&
         std::ranges::none_of(running_, [&](const auto& entry) { return entry.second.job == start.job; });
}

// A batch that could not be read when the conductor began may be readable now.
const BookedCommand* Conductor::command_of(const schedule::JobId& job) {
  if (const BookedCommand* command = commands_.find(job)) return command;
  BatchFiles files(folder_.batches());
  if (const Batch* batch = files.holding(job)) book(*batch);
  return commands_.find(job);
}

void Conductor::carry_out(const schedule::Start& start) {
  if (!is_wanted(start)) return;
  if (scheduler().jobs().at(*scheduler().jobs().find(start.job)).state == schedule::JobState::stopping)
    return tell(schedule::Postponed{start.job, "it was stopped before it began"});
  const FileDescriptor batches(::open(folder_.batches().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!batches && is_shortage(errno))
    return tell_not_started(
        start.job, NotStarted::because(fmt::format("cannot open {}", folder_.batches().string()), errno));
  const BookedCommand* command = command_of(start.job);
  if (command == nullptr)
    return tell(schedule::StartFailed{start.job, "its command is not known: its file in batches is missing"});
  std::vector<std::string> names;
  for (const schedule::GpuNumber gpu : start.gpus) names.push_back(scheduler().gpus().at(gpu).name);
  auto taken = gpus_.take(names, fmt::format("job {}: {}", start.job.text, spoken_command(command->queued().command)));
  if (const auto* held = std::get_if<std::vector<HeldGpu>>(&taken)) {
    for (const HeldGpu& gpu : *held) {
      const auto position = std::ranges::find(names, gpu.name) - names.begin();
      set_aside(start.gpus[static_cast<std::size_t>(position)], gpu.holder);
    }
    return;
  }
  if (const auto* error = std::get_if<Error>(&taken)) {
    write_log_once(error->what);
    return tell(schedule::Postponed{start.job, error->what, schedule::Shortage::gpus});
  }
  for (const schedule::GpuNumber gpu : start.gpus) held_pauses_.erase(gpu);
  if (const auto hindrance = start_on(start, std::move(std::get<GpuGrant>(taken)), *command))
    tell_not_started(start.job, *hindrance);
}

void Conductor::set_aside(schedule::GpuNumber gpu, const std::string& holder) {
  using std::chrono::milliseconds;
  constexpr milliseconds first(250), longest(30'000);
  HeldPause& pause = held_pauses_[gpu];
  pause.length = pause.length == milliseconds(0) ? first : std::min(pause.length * 2, longest);
  pause.until = std::chrono::steady_clock::now() + pause.length;
  tell(schedule::GpuHeld{gpu, holder});
}

// The attempt's file, locked, with space for what will be written to it. Or what is already known about the attempt: it
// has begun, although the journal does not say so. It must not begin again.
std::variant<FileDescriptor, AttemptView, NotStarted> Conductor::open_attempt(const schedule::Start& start) const {
  const std::filesystem::path folder = folder_.job(start.job), path = folder_.attempt(start.job, start.attempt);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return NotStarted::because(fmt::format("cannot make {}", folder.string()), errno);
  FileDescriptor file =
      above_standard_streams(FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)));
  if (!file) return NotStarted::because(fmt::format("cannot open {}", path.string()), errno);
  const auto locked = try_to_lock(file, path);
  if (!locked) return NotStarted{locked.error().what, NotStarted::Cause::shortage};  // of locks
  const auto text = read_file(path);
  if (!text) return NotStarted{text.error().what, NotStarted::Cause::shortage};
  AttemptView view{parse_attempt(*text), *locked ? LockState::open : LockState::locked};
  if (!*locked || !view.record.may_be_repeated()) return view;
  // A partial line that was never finished must not become the beginning of the next one.
  const std::size_t whole = text->rfind('\n') == std::string::npos ? 0 : text->rfind('\n') + 1;
  if (whole < text->size() && ::ftruncate(file.number(), static_cast<off_t>(whole)) != 0)
    return NotStarted::because(fmt::format("cannot write {}", path.string()), errno);
  if (auto hindrance = reserve_room(file, path)) return std::move(*hindrance);
  return file;
}

std::optional<NotStarted> Conductor::start_on(const schedule::Start& start, GpuGrant grant,
                                              const BookedCommand& command) {
  auto attempt = open_attempt(start);
  if (const auto* hindrance = std::get_if<NotStarted>(&attempt)) return *hindrance;
  if (std::holds_alternative<AttemptView>(attempt)) {
    write_log(fmt::format("attempt {} of job {} began already, as its file says: it is not run again", start.attempt,
                          start.job.text));
    follow(start.job, start.attempt);
    return std::nullopt;
  }
  Environment environment = command.batch->environment;
  environment["MUSTER_JOB"] = start.job.text;
  environment["MUSTER_ATTEMPT"] = std::to_string(start.attempt);
  environment["MUSTER_HEARTBEAT_FILE"] = folder_.heartbeat(start.job).string();
  for (auto& [name, value] : grant.environment) environment[name] = value;
  KeeperOrder order{.command = command.queued().command,
                    .environment = {},
                    .folder = command.batch->folder,
                    .umask = command.batch->umask,
                    .log = folder_.log(start.job),
                    .attempt = std::move(std::get<FileDescriptor>(attempt)),
                    .grant = std::move(grant),
                    .grace = options_.grace,
                    .oom_kills = oom_kills()};
  for (const auto& [name, value] : environment) order.environment.push_back(name + "=" + value);
  const auto pid = start_keeper(std::move(order));
  if (!pid) return NotStarted{pid.error().what, NotStarted::Cause::shortage};
  Running& running = follow(start.job, start.attempt);
  running.is_own = true;
  running.keeper = open_process(*pid);
  if (!running.keeper || !wakeups_.watch(running.keeper, next_token_ - 1)) running.keeper = FileDescriptor();
  return std::nullopt;
}

// Read at most once a second: the kernel takes a while to count.
std::uint64_t Conductor::oom_kills() {
  constexpr std::chrono::seconds lasts(1);
  if (const auto now = std::chrono::steady_clock::now(); now >= next_count_) {
    oom_kills_ = launch::oom_kills();
    next_count_ = now + lasts;
  }
  return oom_kills_;
}

// A keeper that is not known yet gets the signal once it is: examine().
void Conductor::carry_out(const schedule::Stop& stop) {
  for (auto& [token, running] : running_)
    if (running.job == stop.job && running.keeper) signal_process(running.keeper, SIGTERM);
}

void Conductor::carry_out(const schedule::Retry& retry) {
  write_log(fmt::format("job {} is tried again: {}", retry.job.text, retry.reason));
}

void Conductor::carry_out(const schedule::Settle& settle) {
  commands_.remove(settle.job);
  if (settle.outcome != schedule::Outcome::succeeded)
    write_log(fmt::format("job {} {}: {}", settle.job.text, name(settle.outcome), settle.reason));
}

}  // namespace muster::queue

// What the scheduler decided, carried out.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/file_lock.hpp"
#include "base/files.hpp"
#include "base/process_handle.hpp"
#include "base/text.hpp"
#include "launch/memory_kills.hpp"
#include "queue/conductor.hpp"
#include "queue/job_keeper.hpp"

namespace muster::queue {

void Conductor::carry_out(const schedule::Start& start) {
  std::vector<std::string> names;
  for (const schedule::GpuNumber gpu : start.gpus) names.push_back(scheduler().gpus().at(gpu).name);
  const BookedCommand* command = commands_.find(start.job);
  if (command == nullptr)
    return tell(schedule::StartFailed{start.job, "its command is not known: its file in batches is missing"});
  auto taken = gpus_.take(names, fmt::format("job {}: {}", start.job.text, join(command->queued().command, " ")));
  if (const auto* held = std::get_if<std::vector<HeldGpu>>(&taken)) {
    for (const HeldGpu& gpu : *held) {
      const auto position = std::ranges::find(names, gpu.name) - names.begin();
      tell(schedule::GpuHeld{start.gpus[static_cast<std::size_t>(position)], gpu.holder});
    }
    return;
  }
  const auto started = std::holds_alternative<GpuGrant>(taken)
                           ? start_on(start, std::move(std::get<GpuGrant>(taken)), *command)
                           : Result<void>(std::get<Error>(taken));
  if (!started) tell(schedule::StartFailed{start.job, started.error().what});
}

Result<void> Conductor::start_on(const schedule::Start& start, GpuGrant grant, const BookedCommand& command) {
  if (::mkdir(folder_.job(start.job).c_str(), 0700) != 0 && errno != EEXIST)
    return Error{Error::Kind::failed,
                 fmt::format("cannot make {}: {}", folder_.job(start.job).string(), system_reason()), ""};
  auto attempt = try_to_lock_file(folder_.attempt(start.job, start.attempt));
  if (!attempt) return attempt.error();
  if (!*attempt) return Error{Error::Kind::failed, "somebody else holds its attempt", ""};
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
                    .attempt = std::move(*attempt),
                    .grant = std::move(grant),
                    .grace = options_.grace,
                    .memory_kills = memory_kills()};
  for (const auto& [name, value] : environment) order.environment.push_back(name + "=" + value);
  const auto pid = start_keeper(std::move(order));
  if (!pid) return pid.error();
  Running& running = follow(start.job, start.attempt);
  running.is_own = true;
  running.keeper = open_process(*pid);
  if (!running.keeper || !wakeups_.watch(running.keeper, next_token_ - 1)) running.keeper = FileDescriptor();
  return {};
}

// Asked at most once a second: the kernel takes its time to count.
std::uint64_t Conductor::memory_kills() {
  constexpr std::chrono::seconds lasts(1);
  if (const auto now = std::chrono::steady_clock::now(); now >= next_count_) {
    memory_kills_ = launch::memory_kills();
    next_count_ = now + lasts;
  }
  return memory_kills_;
}

// A keeper that is not known yet is told when it is: examine().
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

#include "queue/conductor.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/file_lock.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "store/timestamp.hpp"

namespace muster::queue {
namespace {

using Clock = std::chrono::steady_clock;
using schedule::GpuState;
using std::chrono::milliseconds;

constexpr milliseconds lingering_pause(20), held_pause(250), longest_pause(60'000);
// A look at the GPUs may take long where the driver is slow: it never takes more of the time than one part in so many.
constexpr int look_share = 100;

bool has_held_gpus(const schedule::Scheduler& scheduler) {
  return std::ranges::any_of(scheduler.gpus().all(),
                             [](const schedule::GpuStatus& gpu) { return gpu.state == GpuState::held; });
}

}  // namespace

void write_log(const std::string& text) {
  fmt::print(stderr, "{} {}\n", store::timestamp(std::chrono::system_clock::now()), text);
  std::fflush(stderr);
}

Conductor::Conductor(StateFolder folder, GpuSource& gpus, FileDescriptor lock, ConductorOptions options,
                     JournaledScheduler journal, Wakeups wakeups)
    : folder_(std::move(folder)),
      gpus_(gpus),
      lock_(std::move(lock)),
      options_(options),
      journal_(std::move(journal)),
      wakeups_(std::move(wakeups)),
      last_work_(Clock::now()) {}

Result<Conductor> Conductor::open(StateFolder folder, GpuSource& gpus, FileDescriptor lock, ConductorOptions options) {
  auto journal = JournaledScheduler::open(folder);
  if (!journal) return journal.error();
  auto wakeups = Wakeups::watching(folder.inbox());
  if (!wakeups) return wakeups.error();
  return Conductor(std::move(folder), gpus, std::move(lock), options, std::move(*journal), std::move(*wakeups));
}

void Conductor::tell(schedule::Happening what) {
  if (auto told = journal_.tell(std::move(what)); !told) write_log(told.error().what);
}

/* Note [One moment a turn]
   Whatever the scheduler is told, it first looks whose time is up at that moment. A job that is to be heard of is only
   asked for a sign of life when its time is up. So everything of one turn happens at one moment, and at that moment the
   signs are looked for first: no other event can condemn a job in between. */
Result<void> Conductor::run() {
  if (auto prepared = prepare(); !prepared) return prepared;
  while (true) {
    if (!is_idle()) last_work_ = Clock::now();  // what the turn before left to do has kept it busy until now
    journal_.begin_turn();
    look_for_signs();
    look_at_gpus();
    take_inbox();
    tick();
    examine_lingering();
    look_for_returned_gpus();
    if (auto committed = commit(); !committed) return committed;
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (auto tidied = tidy(); !tidied) return tidied;
    if (!is_idle()) last_work_ = Clock::now();
    const auto end = may_end();
    if (!end) return end.error();
    if (*end) return {};
    wait();
  }
}

Result<void> Conductor::prepare() {
  if (auto noted = note_machine_start(); !noted) return noted;
  load_batches();
  recover();
  return {};
}

// What an attempt had written when the machine went down may be lost with it: Conductor::conclude_unbegun().
Result<void> Conductor::note_machine_start() {
  const auto now = read_file("/proc/sys/kernel/random/boot_id");
  if (!now) return {};  // nothing is known here
  const auto before = read_file(folder_.boot());
  machine_was_down_ = before && *before != *now;
  if (before && *before == *now) return {};
  // Attempts that nothing is known of are concluded before the next conductor could take them for those of this start.
  return write_file_atomically(folder_.boot(), *now);
}

// What the scheduler was told is on the disk before anything is done about it.
Result<void> Conductor::commit() {
  while (journal_.has_unwritten() || journal_.has_decisions() || !moves_.empty()) {
    if (auto written = journal_.write(); !written) return written;
    for (const auto& [from, to] : std::exchange(moves_, {}))
      if (to.empty())
        ::unlink(from.c_str());
      else if (::rename(from.c_str(), to.c_str()) != 0)
        return Error{Error::Kind::failed, fmt::format("cannot move {}: {}", from.string(), system_reason()), ""};
    for (const schedule::Decision& decision : journal_.take_decisions())
      std::visit([this](const auto& what) { carry_out(what); }, decision);
  }
  return {};
}

void Conductor::tick() {
  const auto deadline = scheduler().next_deadline();
  if (deadline && *deadline <= journal_.moment()) tell(schedule::Tick{});
}

void Conductor::look_at_gpus() {
  const Clock::time_point began = Clock::now();
  const bool is_first = next_look_ == Clock::time_point();
  if (!is_first && (began < next_look_ || (is_idle() && !has_postponed_))) return;
  const auto seen = gpus_.look();
  if (!seen && (gpus_are_known_ || is_first)) write_log(fmt::format("the GPUs are not known: {}", seen.error().what));
  gpus_are_known_ = static_cast<bool>(seen);
  for (schedule::Happening& what : gpu_watch_.compare(seen, scheduler())) tell(std::move(what));
  if (auto linked = gpu_watch_.compare_links(seen, scheduler())) tell(std::move(*linked));
  const Clock::time_point ended = Clock::now();
  next_look_ = ended + std::max<Clock::duration>(options_.look, look_share * (ended - began));
}

void Conductor::look_for_returned_gpus() {
  const std::vector<schedule::GpuStatus>& all = scheduler().gpus().all();
  for (std::size_t position = 0; position < all.size(); ++position)
    if (all[position].state == GpuState::held && !gpus_.holder_of(all[position].name))
      tell(schedule::GpuReturned{static_cast<schedule::GpuNumber>(position)});
}

bool Conductor::is_idle() const { return running_.empty() && scheduler().is_idle(); }

void Conductor::wait() {
  const auto until = [](Clock::time_point moment) { return std::chrono::ceil<milliseconds>(moment - Clock::now()); };
  milliseconds pause = longest_pause;
  if (is_idle()) pause = std::min(pause, until(last_work_ + options_.idle));
  if (!is_idle() || has_postponed_) pause = std::min(pause, until(next_look_));
  if (!is_idle() && has_held_gpus(scheduler())) pause = std::min(pause, held_pause);
  if (has_lingering()) pause = lingering_pause;
  if (const auto deadline = scheduler().next_deadline())
    pause = std::min(pause, milliseconds(*deadline - journal_.clock().now()));
  for (const Token token : wakeups_.wait(pause))
    if (const auto running = running_.find(token); running != running_.end())
      running->second.keeper = FileDescriptor();  // it has ended; its attempt is looked at in examine_lingering()
}

// Note [The last look]
// Who hands in a request holds the counter's lock from before its file appears until it has looked whether a conductor
// runs. So a conductor that ends takes the same lock, looks at the inbox once more, and gives its own lock up before
// that one: a request is either seen by this look, or by one who then finds no conductor and starts one.
Result<bool> Conductor::may_end() {
  if (!is_idle() || Clock::now() < last_work_ + options_.idle) return false;
  const auto handing_in = lock_file(folder_.path() / "counter.lock");
  if (!handing_in) return handing_in.error();
  if (!lines_files_in(folder_.inbox()).empty()) {
    last_work_ = Clock::now();
    return false;
  }
  // Nobody hands in now: these are of such as were killed while they did.
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(folder_.path(), failure), end; !failure && entry != end;
       entry.increment(failure))
    if (entry->path().filename().string().starts_with("request-")) ::unlink(entry->path().c_str());
  lock_ = FileDescriptor();
  return true;
}

}  // namespace muster::queue

#include "queue/conductor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "system/file_lock.hpp"
#include "system/files.hpp"
#include "system/process.hpp"
#include "base/text.hpp"
#include "queue/conductor_status.hpp"
#include "store/timestamp.hpp"

namespace muster::queue {
namespace {

using Clock = std::chrono::steady_clock;
using schedule::GpuState;
using std::chrono::milliseconds;

constexpr milliseconds lingering_pause(20), held_pause(250), longest_pause(60'000);
// A look at the GPUs may take long if the driver is slow: it never takes more than one part in this many of the time.
constexpr int look_share = 100;

// A failure of the system, for lack of descriptors say, may not recur a little later. What is wrong with the files
// does: a damaged journal is reported at once.
template <class Open>
auto patiently(const Open& open) {
  constexpr int tries = 60;
  constexpr std::chrono::seconds pause(1);
  auto opened = open();
  for (int left = tries; !opened && opened.error().kind == Error::Kind::failed && left > 0; --left) {
    write_log(opened.error().what);
    std::this_thread::sleep_for(pause);
    opened = open();
  }
  return opened;
}

bool has_held_gpus(const schedule::Scheduler& scheduler) {
  return std::ranges::any_of(scheduler.gpus().all(),
                             [](const schedule::GpuStatus& gpu) { return gpu.state == GpuState::held; });
}

}  // namespace

// Never by fmt::print, which throws if the disk is full.
void write_log(const std::string& text) {
  const std::string line = fmt::format("{} {}\n", store::timestamp(std::chrono::system_clock::now()), text);
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
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
  auto journal = patiently([&] { return JournaledScheduler::open(folder); });
  if (!journal) return journal.error();
  auto wakeups = patiently([&] { return Wakeups::watching(folder.inbox()); });
  if (!wakeups) return wakeups.error();
  return Conductor(std::move(folder), gpus, std::move(lock), options, std::move(*journal), std::move(*wakeups));
}

void Conductor::tell(schedule::Happening what) {
  if (auto told = journal_.tell(std::move(what)); !told) write_log(told.error().what);
}

/* Note [One moment a turn]
   Whatever event it gets, the scheduler first stops the jobs whose time is up at that moment. A job with a heartbeat is
   only asked for a sign of life when its time is up. So everything of one turn happens at one moment, and at that
   moment the signs are looked for first: no other event can stop a job in between. */
Result<void> Conductor::run() {
  if (const auto own = read_process_status(::getpid())) write_status(lock_, {own->identity, ""});
  if (auto prepared = prepare(); !prepared) return prepared;
  while (true) {
    if (!is_idle()) last_work_ = Clock::now();  // what the previous turn left to do has kept it busy until now
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
    tidy();
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

// What an attempt had written when the machine crashed may be lost: Conductor::conclude_unbegun().
Result<void> Conductor::note_machine_start() {
  const BootRecord& now = journal_.clock().record();
  const auto text = read_file(folder_.boot());
  const auto before = text ? std::optional(parse_boot(*text)) : std::nullopt;
  machine_was_down_ = before && !now.boot.empty() && before->boot != now.boot;
  if (before == now) return {};
  // Attempts of which nothing is known are concluded before the next conductor could take them for those of this start.
  return until_done([&] { return write_file_atomically(folder_.boot(), to_text(now)); });
}

// Tries until it works. Nothing may be done before what led to it is written, so all it can do is wait;
// running jobs continue meanwhile.
Result<void> Conductor::until_done(const std::function<Result<void>()>& write) {
  constexpr milliseconds first_pause(100), longest(5000);
  const auto say = [this](const std::string& waits_for) {
    if (const auto own = read_process_status(::getpid())) write_status(lock_, {own->identity, waits_for});
  };
  for (milliseconds pause = first_pause; true; pause = std::min(pause * 2, longest)) {
    const auto done = write();
    if (done && pause > first_pause) {
      say("");
      write_log_once("it works again");
    }
    if (done) return {};
    if (lock_state(folder_.conductor_lock()) == LockState::missing) return done;
    say(done.error().what);
    write_log_once(fmt::format("{}; it is tried again until it works", done.error().what));
    std::this_thread::sleep_for(pause);
  }
}

Result<void> Conductor::move(const std::filesystem::path& from, const std::filesystem::path& to) {
  if ((to.empty() ? ::unlink(from.c_str()) : ::rename(from.c_str(), to.c_str())) == 0 || errno == ENOENT) return {};
  return Error{Error::Kind::failed, fmt::format("cannot move {}: {}", from.string(), system_reason()), ""};
}

// A recurring failure is logged when it changes.
void Conductor::write_log_once(const std::string& text) {
  if (text != last_logged_) write_log(text);
  last_logged_ = text;
}

// Events are on the disk before anything is done about them.
Result<void> Conductor::commit() {
  while (journal_.has_unwritten() || journal_.has_decisions() || !moves_.empty()) {
    if (auto written = until_done([&] { return journal_.write(); }); !written) return written;
    for (const auto& [from, to] : std::exchange(moves_, {}))
      if (auto moved = until_done([&] { return move(from, to); }); !moved) return moved;
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
  for (std::size_t position = 0; position < all.size(); ++position) {
    const schedule::GpuNumber gpu{static_cast<int>(position)};
    if (all[position].state != GpuState::held) continue;
    if (const auto pause = held_pauses_.find(gpu); pause != held_pauses_.end() && Clock::now() < pause->second.until)
      continue;
    if (!gpus_.holder_of(all[position].name)) tell(schedule::GpuReturned{gpu});
  }
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
// A command that submits a request holds the counter's lock from before the file appears until it has checked whether
// a conductor runs. So a conductor that ends takes the same lock, looks at the inbox once more, and releases its own
// lock before that one: either this look sees the request, or the command finds no conductor and starts one.
Result<bool> Conductor::may_end() {
  if (!is_idle() || Clock::now() < last_work_ + options_.idle) return false;
  const auto handing_in = lock_file(folder_.path() / "counter.lock");
  if (!handing_in && lock_state(folder_.conductor_lock()) == LockState::missing) return handing_in.error();
  if (!handing_in) {
    write_log_once(handing_in.error().what);
    last_work_ = Clock::now();
    return false;
  }
  const FileDescriptor inbox(::open(folder_.inbox().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!inbox || !lines_files_in(folder_.inbox()).empty()) {  // one that cannot be opened now may contain something
    last_work_ = Clock::now();
    return false;
  }
  // Nothing is being submitted now: these files were left by commands that were killed while submitting.
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(folder_.path(), failure), end; !failure && entry != end;
       entry.increment(failure))
    if (entry->path().filename().string().starts_with("request-")) ::unlink(entry->path().c_str());
  lock_ = FileDescriptor();
  return true;
}

}  // namespace muster::queue

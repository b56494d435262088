// The one process of a queue that reports events to the scheduler and acts on its decisions. It may be killed at any
// moment: everything it knows is in files, and the next one takes over.
//   conductor.cpp           its turns, from its beginning to its end
//   conductor_requests.cpp  what users ask of it
//   conductor_attempts.cpp  jobs that were started: followed, taken over, concluded
//   conductor_starts.cpp    what the scheduler decided, carried out
//   conductor_storage.cpp   what is settled leaves the journal
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "queue/attempt_file.hpp"
#include "queue/command_book.hpp"
#include "queue/gpu_source.hpp"
#include "queue/gpu_watch.hpp"
#include "queue/journaled_scheduler.hpp"
#include "queue/request.hpp"
#include "queue/state_folder.hpp"
#include "queue/wakeups.hpp"

namespace muster::queue {

struct ConductorOptions {
  std::chrono::milliseconds idle{5000};    // without work for this long, it ends
  std::chrono::milliseconds grace{10000};  // how long a stopped job has before it is killed
  std::chrono::milliseconds look{5000};    // least time between two looks at the GPUs
  std::size_t kept = 300;                  // settled jobs that stay in the journal
};

class Conductor {
 public:
  // lock: of the folder's conductor.lock. Reads the journal.
  static Result<Conductor> open(StateFolder folder, GpuSource& gpus, FileDescriptor lock, ConductorOptions options);

  // Until there has been nothing to do for a while. If it cannot write, on a full disk say, it waits and says so:
  // conductor_status.hpp. An Error if its folder is gone.
  Result<void> run();

 private:
  using Token = Wakeups::Token;
  // A job that was ordered to start.
  struct Running {
    schedule::JobId job;
    int attempt = 1;
    FileDescriptor keeper;  // a handle; empty: not known, or dead. Then the attempt's lock is checked repeatedly.
    bool is_own = false;    // this conductor started it
  };

  // A GPU that could not be taken is not tried again at once: what holds it may not be visible in any look.
  struct HeldPause {
    std::chrono::steady_clock::time_point until;
    std::chrono::milliseconds length{0};
  };

  Conductor(StateFolder folder, GpuSource& gpus, FileDescriptor lock, ConductorOptions options,
            JournaledScheduler journal, Wakeups wakeups);
  const schedule::Scheduler& scheduler() const { return journal_.scheduler(); }
  void tell(schedule::Happening what);  // an impossible event is logged

  // Turns.
  Result<void> prepare();
  Result<void> note_machine_start();
  Result<void> commit();
  Result<void> until_done(const std::function<Result<void>()>& write);
  Result<void> move(const std::filesystem::path& from, const std::filesystem::path& to);
  void write_log_once(const std::string& text);
  void tick();
  void look_at_gpus();
  void look_for_returned_gpus();
  void wait();
  bool is_idle() const;
  Result<bool> may_end();

  // Requests.
  void load_batches();
  void take_inbox();
  void take(Batch batch, const std::filesystem::path& file);
  void take(const StopRequest& request, const std::filesystem::path& file);
  void take(const ForgetRequest& request, const std::filesystem::path& file);
  void refuse(const std::filesystem::path& file, const std::string& name, const Error& error);
  Result<void> resolve_archived(std::vector<schedule::Job>& jobs) const;
  void book(Batch batch);

  // Attempts.
  void tell_not_started(const schedule::JobId& job, const NotStarted& hindrance);
  void recover();
  Running& follow(const schedule::JobId& job, int attempt);
  void examine(Token token);
  void conclude(Token token, const AttemptView& view);
  void conclude_unbegun(const Running& running, bool is_missing);
  void examine_lingering();
  bool has_lingering() const;
  void look_for_signs();

  // Starts.
  void carry_out(const schedule::Start& start);
  void carry_out(const schedule::Stop& stop);
  void carry_out(const schedule::Retry& retry);
  void carry_out(const schedule::Settle& settle);
  bool is_wanted(const schedule::Start& start) const;
  const BookedCommand* command_of(const schedule::JobId& job);
  void set_aside(schedule::GpuNumber gpu, const std::string& holder);
  std::uint64_t oom_kills();
  std::variant<FileDescriptor, AttemptView, NotStarted> open_attempt(const schedule::Start& start) const;
  std::optional<NotStarted> start_on(const schedule::Start& start, GpuGrant grant, const BookedCommand& command);

  // Storage.
  void tidy();
  Result<void> shorten();
  Result<void> shorten_journal(const std::unordered_set<schedule::JobIndex>& leaving);
  Result<void> forget();
  void remove_batches_without_jobs(const std::vector<std::filesystem::path>& files) const;

  StateFolder folder_;
  GpuSource& gpus_;
  FileDescriptor lock_;
  ConductorOptions options_;
  JournaledScheduler journal_;
  Wakeups wakeups_;
  GpuWatch gpu_watch_;
  bool gpus_are_known_ = false;    // the last look succeeded
  bool machine_was_down_ = false;  // since the last conductor
  bool has_postponed_ = false;     // requests that wait in the inbox until the GPUs are known
  CommandBook commands_;
  std::map<Token, Running> running_;
  Token next_token_ = 1;
  std::vector<std::pair<std::filesystem::path, std::filesystem::path>>
      moves_;  // when the journal is written; to "": remove
  std::map<schedule::GpuNumber, HeldPause> held_pauses_;
  std::string last_logged_;
  std::unordered_set<std::string> to_forget_;
  std::vector<std::filesystem::path> forget_requests_;
  std::chrono::steady_clock::time_point last_work_, next_look_, next_count_, next_tidy_;
  std::uint64_t oom_kills_ = 0;
};

// To conductor.log, if there is space for it.
void write_log(const std::string& text);

}  // namespace muster::queue

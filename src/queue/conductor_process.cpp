#include "queue/conductor_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "system/exec_arguments.hpp"
#include "system/file_lock.hpp"
#include "system/files.hpp"
#include "system/signals.hpp"
#include "launch/keeper/detached_process.hpp"
#include "queue/conductor.hpp"

namespace muster::queue {
namespace {

constexpr off_t longest_log = 1 << 20;

// The log of the conductors; a long one is moved aside.
FileDescriptor open_log(const StateFolder& folder) {
  struct stat facts = {};
  if (::stat(folder.conductor_log().c_str(), &facts) == 0 && facts.st_size > longest_log)
    ::rename(folder.conductor_log().c_str(), (folder.conductor_log().string() + ".old").c_str());
  return FileDescriptor(::open(folder.conductor_log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
}

// Leaves behind everything of the command that started it: its session, terminal, folder, open files, and the lease,
// launch or job it may have run in.
void leave_caller(const StateFolder& folder) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  give_every_signal_its_default_effect();
  unblock_every_signal();
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const FileDescriptor log = open_log(folder);
  ::dup2(nothing.number(), STDIN_FILENO);
  // Without a log it is silent: a process that reads the caller's output must not have to wait for this one.
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(log ? log.number() : nothing.number(), stream);
  ::unsetenv("MUSTER_LEASE");
  [[maybe_unused]] const int moved = ::chdir(folder.path().c_str());  // the caller's folder may be removed
}

// A process that only checks whether it is locked locks it for an instant: hence the patience.
Result<FileDescriptor> take_conductor_lock(const StateFolder& folder) {
  constexpr int tries = 20;
  constexpr std::chrono::milliseconds pause(5);
  for (int left = tries; true; --left) {
    auto lock = try_to_lock_file(folder.conductor_lock());
    if (!lock || *lock || left == 0) return lock;
    std::this_thread::sleep_for(pause);
  }
}

// In a fork. Only exec remains to be done.
[[noreturn]] void become_program(const std::vector<std::string>& arguments,
                                 const std::vector<std::pair<std::string, std::string>>& environment_changes) {
  for (const auto& [name, value] : environment_changes) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> words{"muster"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ::execv("/proc/self/exe", pointers_for_exec(words).data());
  ::_exit(127);
}

}  // namespace

bool conductor_runs(const StateFolder& folder) { return is_locked_file(folder.conductor_lock()); }

int be_conductor(const StateFolder& folder, const std::function<int(FileDescriptor)>& conduct) try {
  launch::detach_process(launch::detached_queue);  // exec has reset the name
  leave_caller(folder);
  auto lock = take_conductor_lock(folder);
  if (!lock) {
    write_log(lock.error().what);
    return 1;
  }
  return *lock ? conduct(std::move(*lock)) : 0;  // another process was faster
} catch (const std::exception& error) {
  write_log(std::string("internal error: ") + error.what());
  return 1;
}

Result<void> ensure_conductor(const StateFolder& folder, const std::vector<std::string>& arguments,
                              const std::vector<std::pair<std::string, std::string>>& environment_changes) {
  if (conductor_runs(folder)) return {};
  const auto failure = [] {
    return Error{Error::Kind::failed, fmt::format("cannot start the queue's conductor: {}", system_reason()),
                 "ulimit -u shows how many processes you may have, ulimit -n how many open files"};
  };
  int ends[2];
  if (::pipe(ends) != 0) return failure();
  FileDescriptor reader(ends[0]), writer(ends[1]);
  const BlockedSignals blocked;
  const pid_t between = ::fork();
  if (between < 0) return failure();
  if (between == 0) {
    ::setsid();
    launch::detach_process(launch::detached_queue);
    if (::fork() == 0) become_program(arguments, environment_changes);
    writer = FileDescriptor();
    // It stands apart once it has closed what it inherited. Until then it must not lose its parent, and end up with a
    // keeper that ends what it finds.
    char nothing = 0;
    while (::read(reader.number(), &nothing, 1) < 0 && errno == EINTR) {
    }
    ::_exit(0);
  }
  writer = FileDescriptor();
  ::waitpid(between, nullptr, 0);
  return {};
}

}  // namespace muster::queue

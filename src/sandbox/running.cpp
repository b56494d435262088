#include "sandbox/running.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <stdexcept>

#include "system/files.hpp"

namespace muster::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

// How long a keeper that was told to end its program may take until it is ended itself.
constexpr std::chrono::seconds patience(5);

std::string_view to_string(Step step) {
  switch (step) {
    case Step::ended:
      return "end";
    case Step::wait_for_outside:
      return "wait for its parent";
    case Step::take_identity:
      return "become a user without rights";
    case Step::show_files:
      return "show files of the host in namespaces";
    case Step::make_root:
      return "mount file systems in namespaces";
    case Step::start_program:
      return "start a process";
    case Step::restrict_files:
      return "restrict files by Landlock";
    case Step::set_limits:
      return "set limits";
    case Step::filter_calls:
      return "filter system calls by seccomp";
    case Step::execute:
      return "execute the program";
  }
  throw std::logic_error("a step outside its enumeration");
}

}  // namespace

Error could_not(std::string_view action) {
  return {Error::Kind::failed, fmt::format("the sandbox cannot {}: {}", action, system_reason()),
          "look at the limits on processes and open files: ulimit -u, ulimit -n"};
}

Running::~Running() {
  if (keeper_ <= 0) return;
  ::kill(keeper_, SIGKILL);
  wait();
}

bool Running::permit() { return ::send(control_.number(), "g", 1, MSG_NOSIGNAL) == 1; }

void Running::stop() {
  if (kill_at_) return;
  ::send(control_.number(), "s", 1, MSG_NOSIGNAL);
  kill_at_ = Clock::now() + patience;
}

void Running::kill_if_due() {
  if (kill_at_ && Clock::now() >= *kill_at_) ::kill(keeper_, SIGKILL);
}

std::optional<Report> Running::report() {
  Report report{};
  ssize_t size = 0;
  // A keeper that has ended without having read what it was told gives this error once, before its report.
  do size = ::recv(control_.number(), &report, sizeof report, 0);
  while (size < 0 && (errno == EINTR || errno == ECONNRESET));
  if (size != sizeof report) return std::nullopt;
  return report;
}

void Running::wait() {
  while (::waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
  }
  keeper_ = -1;
}

bool Output::take(std::size_t stream) {
  if (!from_[stream]) return false;
  std::array<char, 65536> part;
  const ssize_t size = ::read(from_[stream].number(), part.data(), part.size());
  if (size == 0) FileDescriptor(std::move(from_[stream]));
  if (size <= 0) return false;
  text[stream].append(part.data(), static_cast<std::size_t>(std::clamp<std::int64_t>(left_, 0, size)));
  left_ -= size;
  return true;
}

void Output::take_rest() {
  for (const std::size_t stream : {0U, 1U})
    while (!is_over() && take(stream)) {
    }
}

Watched watch(Running& running, Output& output, const FileDescriptor& until, const Limits& limits) {
  const Clock::time_point deadline = Clock::now() + limits.wall_time;
  Watched watched;
  const auto is_stopping = [&] { return watched.exceeded || watched.called_off; };
  while (true) {
    std::array<pollfd, 4> waiting{pollfd{running.control(), POLLIN, 0}, pollfd{output.number(0), POLLIN, 0},
                                  pollfd{output.number(1), POLLIN, 0},
                                  pollfd{is_stopping() ? -1 : until.number(), POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const auto longest = is_stopping() ? 50 : std::clamp<std::int64_t>(left, 0, 60'000);
    ::poll(waiting.data(), waiting.size(), static_cast<int>(longest));
    for (const std::size_t stream : {0U, 1U})
      if (waiting[1 + stream].revents != 0) output.take(stream);
    if (!is_stopping()) {
      if (output.is_over())
        watched.exceeded = LimitKind::output;
      else if (Clock::now() >= deadline)
        watched.exceeded = LimitKind::wall_time;
      watched.called_off = !watched.exceeded && waiting[3].revents != 0;
      if (is_stopping()) running.stop();
    }
    running.kill_if_due();
    if (waiting[0].revents == 0) continue;
    watched.report = running.report();
    return watched;
  }
}

Outcome to_outcome(const Watched& watched, Output output, const Limits& limits) {
  const Report& report = watched.report.value();
  Outcome outcome;
  if (WIFSIGNALED(report.value))
    outcome.end.signal = WTERMSIG(report.value);
  else
    outcome.end.exit_code = WEXITSTATUS(report.value);
  outcome.cpu_time = std::chrono::milliseconds(report.cpu_milliseconds);
  outcome.peak_memory = {report.peak_kibibytes << 10};
  outcome.exceeded = watched.exceeded;
  // Otherwise it was faster, and ended by itself.
  outcome.called_off = watched.called_off && outcome.end.signal == SIGKILL;
  if (!outcome.exceeded && output.is_over()) outcome.exceeded = LimitKind::output;
  const bool for_cpu_time =
      outcome.end.signal == SIGXCPU || (outcome.end.signal == SIGKILL && outcome.cpu_time >= limits.cpu_time);
  if (!outcome.exceeded && for_cpu_time) outcome.exceeded = LimitKind::cpu_time;
  outcome.output = std::move(output.text[0]);
  outcome.errors = std::move(output.text[1]);
  return outcome;
}

Error to_error(const Report& report, const std::string& program) {
  errno = report.value;
  if (report.step == Step::execute)
    return {Error::Kind::bad_input, fmt::format("the sandbox cannot run {}: {}", program, system_reason()),
            "check that it exists, is executable, and lies in a folder that the sandbox shows to everybody: /usr or the "
            "folder of the interpreter"};
  return could_not(to_string(report.step));
}

std::string_view to_string(LimitKind limit) {
  switch (limit) {
    case LimitKind::cpu_time:
      return "time on the CPU";
    case LimitKind::wall_time:
      return "time";
    case LimitKind::output:
      return "output";
  }
  throw std::logic_error("a limit outside its enumeration");
}

}  // namespace muster::sandbox

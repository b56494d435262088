#include "system/coprocess.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "system/program_start.hpp"
#include "system/signals.hpp"

namespace muster {
namespace {

using std::chrono::milliseconds;

// What a program that stops reading has left to say something with.
constexpr milliseconds patience_with_the_deaf(1000);
// Between the end of its input, SIGTERM and SIGKILL.
constexpr milliseconds patience_at_the_end(500);
// After which a wait looks whether a stop was requested.
constexpr milliseconds between_looks(100);

bool ends_within(pid_t pid, milliseconds longest) {
  const auto deadline = std::chrono::steady_clock::now() + longest;
  while (!has_ended(pid)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

}  // namespace

Result<Coprocess> Coprocess::start(const std::vector<std::string>& command, std::string name, std::size_t longest_line) {
  auto input = open_pipe(), output = open_pipe();
  for (const auto* pipe : {&input, &output})
    if (!*pipe) return pipe->error();
  const auto pid = start_program(command, {}, {input->read.number(), output->write.number(), STDERR_FILENO});
  if (!pid) return pid.error();
  for (const FileDescriptor* ours : {&input->write, &output->read}) ::fcntl(ours->number(), F_SETFL, O_NONBLOCK);
  LineReader lines(output->read.number(), std::move(name), longest_line);
  return Coprocess(*pid, std::move(input->write), std::move(output->read), std::move(lines));
}

Coprocess::~Coprocess() {
  if (pid_ == 0) return;
  FileDescriptor(std::move(input_));
  if (!ends_within(pid_, patience_at_the_end)) {
    ::kill(-pid_, SIGTERM);
    ends_within(pid_, patience_at_the_end);
  }
  kill();
}

void Coprocess::kill() {
  if (pid_ == 0) return;
  ::kill(-pid_, SIGKILL);  // not yet reaped, so that the number is still the group's
  reap_until(std::exchange(pid_, 0), std::chrono::steady_clock::now() + patience_after_kill);
}

std::optional<ProcessEnd> Coprocess::wait_for_end(milliseconds longest) const {
  if (pid_ == 0 || !ends_within(pid_, longest)) return std::nullopt;
  siginfo_t facts = {};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &facts, WEXITED | WNOHANG | WNOWAIT) != 0) return ProcessEnd{};
  ProcessEnd end;
  (facts.si_code == CLD_EXITED ? end.exit_code : end.signal) = facts.si_status;
  return end;
}

void Coprocess::send(std::string& unsent) {
  const NoPipeSignal no_signal;
  const ssize_t count = ::write(input_.number(), unsent.data(), unsent.size());
  if (count > 0) unsent.erase(0, static_cast<std::size_t>(count));
  if (count < 0 && errno != EAGAIN && errno != EINTR) FileDescriptor(std::move(input_));
}

Result<Coprocess::Heard> Coprocess::converse(std::string& unsent, Deadline deadline, const std::stop_token& stop,
                                             const FileDescriptor& call) {
  const milliseconds longest = stop.stop_possible() ? between_looks : milliseconds(60'000);
  bool noticed = false;
  while (true) {
    auto next = lines_.next();
    if (!next) return next.error();
    if (auto* line = std::get_if<std::string>(&*next)) return Heard(std::move(*line));
    if (std::holds_alternative<NoMoreLines>(*next)) return Heard(NoMoreOutput{});
    const bool sends = !unsent.empty();
    if (sends && is_deaf() && !std::exchange(noticed, true))
      deadline = std::min(deadline, std::chrono::steady_clock::now() + patience_with_the_deaf);
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0 || stop.stop_requested()) return Heard(Late{});
    std::array<pollfd, 3> waiting{pollfd{output_.number(), POLLIN, 0},
                                  pollfd{sends ? input_.number() : -1, POLLOUT, 0}, pollfd{call.number(), POLLIN, 0}};
    ::poll(waiting.data(), waiting.size(), static_cast<int>(std::min<std::int64_t>(left, longest.count())));
    if (waiting[1].revents != 0) send(unsent);
    if (waiting[2].revents != 0) return Heard(Called{});
  }
}

}  // namespace muster

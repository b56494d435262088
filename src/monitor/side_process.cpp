#include "monitor/side_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "system/files.hpp"
#include "system/signals.hpp"

namespace muster::monitor {
namespace {

Error cannot_start() {
  return {Error::Kind::failed, fmt::format("cannot start a process: {}", system_reason()),
          "ulimit -u tells how many processes you may have, ulimit -n how many files"};
}

struct Pipe {
  FileDescriptor read, write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return cannot_start();
  Pipe made{above_standard_streams(FileDescriptor(ends[0])), above_standard_streams(FileDescriptor(ends[1]))};
  if (!made.read || !made.write) return cannot_start();
  return made;
}

// A process that hangs must not keep a terminal, or a file of its parent, open.
void leave_parent(int in, int out) {
  ::prctl(PR_SET_NAME, "muster-side");
  give_every_signal_its_default_effect();
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);
  unblock_every_signal();
  ::setsid();
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  const auto [low, high] = std::minmax(in, out);
  if (low > STDERR_FILENO + 1) ::close_range(STDERR_FILENO + 1, static_cast<unsigned>(low - 1), 0);
  if (high > low + 1) ::close_range(static_cast<unsigned>(low + 1), static_cast<unsigned>(high - 1), 0);
  ::close_range(static_cast<unsigned>(high + 1), ~0U, 0);
}

}  // namespace

Result<SideProcess> SideProcess::start(const std::function<void(int in, int out)>& work) {
  auto down = make_pipe();
  if (!down) return down.error();
  auto up = make_pipe();
  if (!up) return up.error();
  const BlockedSignals blocked;
  const pid_t pid = ::fork();
  if (pid < 0) return cannot_start();
  if (pid == 0) {
    leave_parent(down->read.number(), up->write.number());
    try {
      work(down->read.number(), up->write.number());
    } catch (const std::exception&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  ::fcntl(down->write.number(), F_SETFL, O_NONBLOCK);
  ::fcntl(up->read.number(), F_SETFL, O_NONBLOCK);
  return SideProcess(pid, std::move(down->write), std::move(up->read));
}

bool SideProcess::tell(std::string_view text) const {
  return ::write(in_.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

std::vector<std::string> SideProcess::receive() {
  std::vector<std::string> lines;
  char block[65536];
  while (out_) {
    const ssize_t got = ::read(out_.number(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    if (got == 0) {
      out_ = FileDescriptor();
      ::waitpid(pid_, nullptr, WNOHANG);
      break;
    }
    partial_.append(block, static_cast<std::size_t>(got));
  }
  for (std::size_t end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n')) {
    lines.push_back(partial_.substr(0, end));
    partial_.erase(0, end + 1);
  }
  return lines;
}

void SideProcess::kill() {
  if (out_ && pid_ > 0) ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, WNOHANG);
}

}  // namespace muster::monitor

// How fast does tee go? Ranks write whole lines into files at full speed; the pump follows the files and shows the
// lines, with a prefix, on a console that is a file or a pipe. Afterwards every line is checked. With --python,
// torchrun's own TailLog does the same in the same minute. Bar: 100 MB/s and not a byte lost.
//   log_bench [--megabytes 400] [--folder DIR] [--python PYTHON_WITH_TORCH]
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/text.hpp"
#include "launch/log_pump.hpp"
#include "testing/scratch_folder.hpp"

namespace {

namespace fs = std::filesystem;
using muster::FileDescriptor;

constexpr std::string_view line_rest =
    " loss 0.4821 learning rate 3.0e-04 tokens per second 48211 memory 61.2 GiB step time 0.381";
constexpr std::size_t digits = 9;
constexpr std::size_t line_bytes = digits + line_rest.size() + 1;
constexpr std::size_t lines_per_write = 8192 / line_bytes;  // Python's own buffer is as large

struct Work {
  std::size_t ranks = 1;
  std::size_t writes_per_rank = 0;
  fs::path folder;

  std::size_t lines() const { return writes_per_rank * lines_per_write; }
  std::size_t bytes() const { return ranks * lines() * line_bytes; }
  fs::path log(std::size_t rank) const { return folder / fmt::format("{}.log", rank); }
};

std::string prefix(std::size_t rank) { return fmt::format("[default{}]:", rank); }

// A rank: all its lines, as fast as they go.
[[noreturn]] void write_lines(const Work& work, std::size_t rank) {
  const FileDescriptor file(::open(work.log(rank).c_str(), O_WRONLY | O_CLOEXEC));
  std::string block;
  for (std::size_t line = 0; line < lines_per_write; ++line)
    block += std::string(digits, '0') + std::string(line_rest) + "\n";
  std::size_t number = 0;
  for (std::size_t count = 0; count < work.writes_per_rank; ++count) {
    for (std::size_t line = 0; line < lines_per_write; ++line, ++number)
      for (std::size_t digit = digits, left = number; digit-- > 0; left /= 10)
        block[line * line_bytes + digit] = static_cast<char>('0' + left % 10);
    if (::write(file.number(), block.data(), block.size()) != static_cast<ssize_t>(block.size())) ::_exit(1);
  }
  ::_exit(0);
}

std::vector<pid_t> start_ranks(const Work& work) {
  std::vector<pid_t> pids;
  for (std::size_t rank = 0; rank < work.ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) write_lines(work, rank);
    pids.push_back(pid);
  }
  return pids;
}

void wait_for(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) ::waitpid(pid, nullptr, 0);
}

void make_logs(const Work& work) {
  for (std::size_t rank = 0; rank < work.ranks; ++rank)
    FileDescriptor(::open(work.log(rank).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
}

// Whether the console shows each line of each rank once, whole and in order.
bool complete(const fs::path& console, const Work& work) {
  std::ifstream text(console, std::ios::binary);
  std::vector<std::size_t> next(work.ranks, 0);
  for (std::string line; std::getline(text, line);) {
    const auto rank = line.size() > 8 ? static_cast<std::size_t>(line[8] - '0') : work.ranks;
    if (rank >= work.ranks) return false;
    if (line != fmt::format("{}{:0{}}{}", prefix(rank), next[rank]++, digits, line_rest)) return false;
  }
  for (const std::size_t lines : next)
    if (lines != work.lines()) return false;
  return true;
}

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count(); }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

void report(std::string_view who, std::string_view console, const Work& work, double seconds, bool whole) {
  fmt::print(
      "{{\"benchmark\": \"log_bench\", \"who\": \"{}\", \"console\": \"{}\", \"ranks\": {}, \"megabytes\": {}, "
      "\"seconds\": {:.3f}, \"megabytes_per_second\": {:.0f}, \"complete\": {}, \"bar_megabytes_per_second\": 100}}\n",
      who, console, work.ranks, work.bytes() / 1000000, seconds, double(work.bytes()) / 1e6 / seconds, whole);
  std::fflush(stdout);
}

// Writes and shows everything; the time it took.
double pump(const Work& work, int console) {
  make_logs(work);
  const Stopwatch watch;
  const std::vector<pid_t> ranks = start_ranks(work);
  auto pump = muster::launch::LogPump::start(console, console).value();
  for (std::size_t rank = 0; rank < work.ranks; ++rank) {
    muster::launch::PumpedStream stream;
    stream.local_rank = static_cast<int>(rank);
    stream.followed = work.log(rank);
    stream.prefix = prefix(rank);
    if (const auto added = pump.add(std::move(stream)); !added) fmt::print(stderr, "{}\n", to_string(added.error()));
  }
  wait_for(ranks);
  pump.finish();
  return watch.seconds();
}

void pump_to_file(const Work& work) {
  const fs::path path = work.folder / "console";
  const FileDescriptor console(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  const double seconds = pump(work, console.number());
  report("muster", "file", work, seconds, complete(path, work));
}

void pump_to_pipe(const Work& work) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  FileDescriptor read(ends[0]), write(ends[1]);
  std::size_t seen = 0;
  std::thread reader([&] {
    std::vector<char> block(65536);
    for (ssize_t got = 0; (got = ::read(read.number(), block.data(), block.size())) > 0;)
      seen += static_cast<std::size_t>(got);
  });
  const double seconds = pump(work, write.number());
  write = FileDescriptor();
  reader.join();
  report("muster", "pipe", work, seconds, seen == work.bytes() + work.ranks * work.lines() * prefix(0).size());
}

// Follows the files it is given until its input ends.
constexpr std::string_view peer_program = R"(
import sys
from torch.distributed.elastic.multiprocessing.tail_log import TailLog
with open(sys.argv[1], "w") as console:
    tail = TailLog("default", dict(enumerate(sys.argv[2:])), console).start()
    print("ready", flush=True)
    sys.stdin.read()
    tail.stop()
)";

// The peer with both ends of a conversation.
struct Peer {
  pid_t pid = -1;
  FileDescriptor orders;
  FileDescriptor answers;
};

Peer start_peer(const std::string& python, const fs::path& console, const Work& work) {
  std::vector<std::string> command{python, "-c", std::string(peer_program), console.string()};
  for (std::size_t rank = 0; rank < work.ranks; ++rank) command.push_back(work.log(rank).string());
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  int orders[2], answers[2];
  if (::pipe2(orders, O_CLOEXEC) != 0 || ::pipe2(answers, O_CLOEXEC) != 0) return {};
  Peer peer{::fork(), FileDescriptor(orders[1]), FileDescriptor(answers[0])};
  if (peer.pid == 0) {
    ::dup2(orders[0], STDIN_FILENO);
    ::dup2(answers[1], STDOUT_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(orders[0]);
  ::close(answers[1]);
  return peer;
}

void tail_by_torchrun(const std::string& python, const Work& work) {
  const fs::path console = work.folder / "console";
  make_logs(work);
  Peer peer = start_peer(python, console, work);
  char answer = 0;
  if (::read(peer.answers.number(), &answer, 1) != 1) {
    fmt::print(stderr, "{} cannot import torch\n", python);
    return;
  }
  const Stopwatch watch;
  wait_for(start_ranks(work));
  peer.orders = FileDescriptor();
  ::waitpid(peer.pid, nullptr, 0);
  report("torchrun", "file", work, watch.seconds(), complete(console, work));
}

}  // namespace

int main(int count, char** arguments) {
  const muster::testing::ScratchFolder scratch;
  Work work{.folder = scratch.path()};
  std::size_t megabytes = 400;
  std::string python;
  for (int at = 1; at < count; at += 2) {
    const std::string_view name = arguments[at];
    const std::string_view value = at + 1 < count ? arguments[at + 1] : "";
    if (const auto number = muster::parse_number<std::size_t>(value); name == "--megabytes" && number && *number > 0) {
      megabytes = *number;
    } else if (name == "--folder" && !value.empty()) {
      work.folder = value;
    } else if (name == "--python" && !value.empty()) {
      python = value;
    } else {
      fmt::print(stderr, "usage: log_bench [--megabytes N] [--folder DIR] [--python PYTHON_WITH_TORCH]\n");
      return 2;
    }
  }
  for (const std::size_t ranks : {1U, 8U}) {
    work.ranks = ranks;
    work.writes_per_rank = megabytes * 1000000 / ranks / (lines_per_write * line_bytes);
    pump_to_file(work);
    pump_to_pipe(work);
    if (!python.empty()) tail_by_torchrun(python, work);
  }
  return 0;
}

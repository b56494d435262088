// What a launcher costs: N no-op ranks started by fork and exec alone, by muster launch and by torchrun, in turn; and
// how long it takes from a rank's death to the launcher's end.
//   launch_bench --muster PROGRAM [--torchrun PROGRAM] [--runs 30] [--torchrun-runs 3]
// Bars: muster at most 20 ms over fork and exec, at least 100 times faster than torchrun; death to end at most 100 ms.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/text.hpp"
#include "testing/scratch_folder.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

double milliseconds_since(Clock::time_point began) {
  return std::chrono::duration<double, std::milli>(Clock::now() - began).count();
}

pid_t start(const Words& command) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double bare_ranks(int ranks) {
  const auto began = Clock::now();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) children.push_back(start({"/bin/true"}));
  for (const pid_t child : children) wait_for(child);
  return milliseconds_since(began);
}

// Nothing when the launcher failed.
std::optional<double> launched_ranks(const Words& launcher, int ranks) {
  Words command = launcher;
  command.insert(command.end(), {"--nproc-per-node", std::to_string(ranks), "--no-python", "/bin/true"});
  const auto began = Clock::now();
  return wait_for(start(command)) == 0 ? std::optional(milliseconds_since(began)) : std::nullopt;
}

// Two ranks that sleep; the second is killed as soon as it has said who it is.
std::optional<double> death_to_end(const Words& launcher) {
  const muster::testing::ScratchFolder scratch;
  const std::string file = (scratch.path() / "pid").string();
  Words command = launcher;
  command.insert(command.end(), {"--nproc-per-node", "2", "--no-python", "/bin/sh", "-c",
                                 "if [ $RANK = 1 ]; then echo $$ > $0.part; mv $0.part $0; fi; exec sleep 60", file});
  const pid_t child = start(command);
  pid_t victim = 0;
  for (const auto deadline = Clock::now() + std::chrono::seconds(60); victim == 0 && Clock::now() < deadline;) {
    std::ifstream(file) >> victim;
    if (victim == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it has become sleep by then
  if (victim == 0) return std::nullopt;
  const auto began = Clock::now();
  ::kill(victim, SIGKILL);
  wait_for(child);
  return milliseconds_since(began);
}

struct Options {
  Words muster;
  std::optional<Words> torchrun;
  std::size_t runs = 30;
  std::size_t torchrun_runs = 3;
};

std::optional<Options> parse(int count, char** arguments) {
  Options options;
  for (int at = 1; at + 1 < count; at += 2) {
    const std::string_view name = arguments[at];
    const std::string value = arguments[at + 1];
    const auto number = muster::parse_number<std::size_t>(value);
    if (name == "--muster")
      options.muster = {value, "launch"};
    else if (name == "--torchrun")
      options.torchrun = Words{value};
    else if (name == "--runs" && number && *number > 0)
      options.runs = *number;
    else if (name == "--torchrun-runs" && number && *number > 0)
      options.torchrun_runs = *number;
    else
      return std::nullopt;
  }
  return options.muster.empty() || count % 2 == 0 ? std::nullopt : std::optional(options);
}

bool measure_start(const Options& options, int ranks) {
  std::vector<double> bare, muster, torchrun;
  for (std::size_t run = 0; run < options.runs; ++run) {
    bare.push_back(bare_ranks(ranks));
    const auto launched = launched_ranks(options.muster, ranks);
    if (!launched) return false;
    muster.push_back(*launched);
  }
  for (std::size_t run = 0; options.torchrun && run < options.torchrun_runs; ++run) {
    const auto launched = launched_ranks(*options.torchrun, ranks);
    if (!launched) return false;
    torchrun.push_back(*launched);
  }
  fmt::print(
      "{{\"benchmark\": \"launch_bench\", \"ranks\": {}, \"bare_ms\": {:.1f}, \"muster_ms\": {:.1f}, \"over_bare_ms\": "
      "{:.1f}, "
      "\"bar_over_bare_ms\": 20",
      ranks, median(bare), median(muster), median(muster) - median(bare));
  if (!torchrun.empty())
    fmt::print(", \"torchrun_ms\": {:.0f}, \"times_faster\": {:.0f}, \"bar_times_faster\": 100", median(torchrun),
               median(torchrun) / median(muster));
  fmt::print("}}\n");
  return true;
}

bool measure_end(const Options& options) {
  std::vector<double> muster, torchrun;
  for (std::size_t run = 0; run < options.runs; ++run) {
    const auto span = death_to_end(options.muster);
    if (!span) return false;
    muster.push_back(*span);
  }
  for (std::size_t run = 0; options.torchrun && run < options.torchrun_runs; ++run)
    if (const auto span = death_to_end(*options.torchrun)) torchrun.push_back(*span);
  fmt::print(
      "{{\"benchmark\": \"launch_bench\", \"what\": \"death of a rank to the launcher's end\", \"muster_ms\": {:.1f}, "
      "\"worst_ms\": {:.1f}, \"bar_ms\": 100",
      median(muster), *std::ranges::max_element(muster));
  if (!torchrun.empty()) fmt::print(", \"torchrun_ms\": {:.0f}", median(torchrun));
  fmt::print("}}\n");
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  const auto options = parse(count, arguments);
  if (!options) {
    fmt::print(stderr, "usage: launch_bench --muster PROGRAM [--torchrun PROGRAM] [--runs N] [--torchrun-runs N]\n");
    return 2;
  }
  bool complete = true;
  for (const int ranks : {1, 4, 8}) complete = measure_start(*options, ranks) && complete;
  complete = measure_end(*options) && complete;
  if (!complete) fmt::print(stderr, "a launcher failed\n");
  return complete ? 0 : 1;
}

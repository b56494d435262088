#include "monitor/run_search.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <deque>

#include "system/files.hpp"
#include "base/text.hpp"

namespace muster::monitor {
namespace {

namespace fs = std::filesystem;

// Bounds on what one search looks at: a job may be a build with thousands of processes.
constexpr std::size_t most_processes = 64;
constexpr std::size_t most_files = 256;

std::optional<fs::path> run_open_in(const fs::path& process) {
  std::error_code failure;
  std::size_t seen = 0;
  for (fs::directory_iterator file(process / "fd", failure), end; !failure && file != end && seen < most_files;
       file.increment(failure), ++seen) {
    std::error_code ignored;
    const fs::path target = fs::read_symlink(file->path(), ignored);
    if (target.filename() == "lock" && fs::exists(target.parent_path() / "run.json", ignored))
      return target.parent_path();
  }
  return std::nullopt;
}

void add_children(const fs::path& process, std::deque<pid_t>& found) {
  std::error_code failure;
  for (fs::directory_iterator thread(process / "task", failure), end; !failure && thread != end;
       thread.increment(failure)) {
    const auto text = read_file(thread->path() / "children");
    if (!text) continue;
    for (const std::string& word : split(*text, ' '))
      if (const auto pid = parse_number<pid_t>(word)) found.push_back(*pid);
  }
}

}  // namespace

std::optional<fs::path> run_of_process(pid_t pid, const fs::path& proc) {
  std::deque<pid_t> processes{pid};
  for (std::size_t looked = 0; !processes.empty() && looked < most_processes; ++looked) {
    const fs::path process = proc / std::to_string(processes.front());
    processes.pop_front();
    if (auto run = run_open_in(process)) return run;
    add_children(process, processes);
  }
  return std::nullopt;
}

}  // namespace muster::monitor

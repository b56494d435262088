#include "lease/kernel_locks.hpp"

#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <sstream>

#include "system/files.hpp"
#include "base/text.hpp"

namespace muster::lease {

KernelLocks KernelLocks::read(const std::filesystem::path& proc) {
  KernelLocks locks;
  const auto text = read_file(proc / "locks");
  if (!text) return locks;
  std::istringstream lines(*text);
  // "1: FLOCK  ADVISORY  WRITE 4912 fe:00:2146454 0 EOF"; those who wait in the kernel have "->" before FLOCK.
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, kind, advice, access, pid, file;
    if (!(words >> number >> kind >> advice >> access >> pid >> file)) continue;
    if (kind != "FLOCK") continue;
    if (const auto taker = parse_number<pid_t>(pid); taker && *taker > 0)
      locks.entries_.push_back({*taker, file, access != "WRITE"});
  }
  return locks;
}

namespace {

std::string key_of(const struct stat& file) {
  return fmt::format("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), file.st_ino);
}

}  // namespace

std::optional<pid_t> KernelLocks::taker(const struct stat& file) const {
  const std::string key = key_of(file);
  for (const Entry& entry : entries_)
    if (!entry.shared && entry.file == key) return entry.pid;
  return std::nullopt;
}

std::optional<pid_t> KernelLocks::sharer(const struct stat& file) const {
  const std::string key = key_of(file);
  for (const Entry& entry : entries_)
    if (entry.shared && entry.file == key && entry.pid != ::getpid()) return entry.pid;
  return std::nullopt;
}

bool is_same_process(pid_t pid, pid_t recorded, const std::filesystem::path& proc) {
  if (pid == recorded) return true;
  const auto status = read_file(proc / std::to_string(pid) / "status");
  if (!status) return false;
  std::istringstream lines(*status);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream words(line.substr(6));
    for (pid_t name = 0; words >> name;)
      if (name == recorded) return true;
  }
  return false;
}

}  // namespace muster::lease

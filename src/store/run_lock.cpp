#include "store/run_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

#include "system/file_lock.hpp"
#include "system/files.hpp"
#include "system/host_name.hpp"
#include "base/text.hpp"

namespace muster::store {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

fs::path lock_of(const fs::path& run_folder) { return run_folder / "lock"; }

std::string own_name() { return fmt::format("process {} on {}", ::getpid(), host_name()); }

// A reader's shared lock lasts only an instant; others are waited for.
bool lock_within(int file, std::chrono::milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    if (steady_clock::now() >= deadline) {
      errno = EWOULDBLOCK;
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

Error held(const fs::path& run_folder) {
  return {
      Error::Kind::refused,
      fmt::format("{} is being worked on by {}", run_folder.string(), holder(run_folder).value_or("another process")),
      "wait until it has ended, or start a run of its own"};
}

}  // namespace

Result<RunLock> RunLock::take(const fs::path& run_folder, std::chrono::milliseconds patience) {
  const fs::path path = lock_of(run_folder);
  const auto cannot = [&] {
    return Error{Error::Kind::failed, fmt::format("cannot lock {}: {}", path.string(), system_reason()),
                 "check permissions of the folder"};
  };
  FileDescriptor file =
      above_standard_streams(FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)));
  if (!file) return cannot();
  if (!lock_within(file.number(), patience)) return errno == EWOULDBLOCK ? held(run_folder) : cannot();
  const std::string name = own_name() + "\n";
  if (::ftruncate(file.number(), 0) != 0 ||
      ::pwrite(file.number(), name.data(), name.size(), 0) != static_cast<ssize_t>(name.size()) ||
      ::fcntl(file.number(), F_SETFD, 0) != 0)  // inherited from here on
    return cannot();
  return RunLock(std::move(file));
}

bool is_locked(const fs::path& run_folder) { return is_locked_file(lock_of(run_folder)); }

std::optional<std::string> holder(const fs::path& run_folder) {
  constexpr std::size_t longest = 300;
  const FileDescriptor file(::open(lock_of(run_folder).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, longest> text;
  const ssize_t got = file ? ::read(file.number(), text.data(), text.size()) : -1;
  if (got <= 0) return std::nullopt;
  const std::string_view name = trim({text.data(), static_cast<std::size_t>(got)});
  if (!name.starts_with("process ") || !is_utf8(name)) return std::nullopt;
  for (const char letter : name)
    if (static_cast<unsigned char>(letter) < 0x20) return std::nullopt;
  return std::string(name);
}

}  // namespace muster::store

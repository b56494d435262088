#include "system/disk_space.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace muster {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds between_tries(100);

}  // namespace

std::optional<ByteCount> free_space(const fs::path& path) {
  std::error_code failure;
  fs::path asked = fs::absolute(path, failure);
  while (!fs::exists(asked, failure) && asked.has_relative_path()) asked = asked.parent_path();
  struct statvfs facts = {};
  if (::statvfs(asked.c_str(), &facts) != 0 || facts.f_blocks == 0) return std::nullopt;
  return ByteCount{static_cast<std::int64_t>(facts.f_bavail * facts.f_frsize)};
}

bool is_disk_full(int error_number) { return error_number == ENOSPC || error_number == EDQUOT; }

bool DiskWait::pause(const std::string& what, const std::stop_token& stop) {
  const auto now = Clock::now();
  if (!deadline_) {
    deadline_ = now + patience_;
    if (on_waiting_ && patience_.count() > 0)
      on_waiting_(fmt::format("the disk is full: {}; waiting up to {} s for room", what,
                              std::chrono::ceil<std::chrono::seconds>(patience_).count()));
  }
  if (now >= *deadline_ || stop.stop_requested()) return false;
  std::this_thread::sleep_for(std::min<Clock::duration>(between_tries, *deadline_ - now));
  return true;
}

Result<void> DiskWait::until_free(const fs::path& path, ByteCount needed, const std::string& what,
                                  const std::stop_token& stop) {
  while (true) {
    const auto free = free_space(path);
    if (!free || *free >= needed) return {};
    const std::string shortage =
        fmt::format("{} needs {}, and the disk of {} has {} free", what, to_string(needed), path.string(),
                    to_string(*free));
    if (!pause(shortage, stop))
      return Error{Error::Kind::refused, shortage, fmt::format("free {} there", to_string(needed - *free))};
  }
}

}  // namespace muster

#include "lease/release_watch.hpp"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <thread>

namespace muster::lease {

// Note [What wakes a waiter]
// Holders have their lock files open for writing, those who only look do not: so a writer's close is a release (also by
// kill -9), and looking wakes nobody. One who waits behind others looks out for their tickets only, so that a release
// does not wake the whole line: a ticket that is deleted changes its link count, one of a killed waiter is closed.
bool ReleaseWatch::look_out_for(const std::vector<std::string>& tickets) {
  if (events_ && tickets_ == tickets) return false;
  if (!events_) events_ = FileDescriptor(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!events_) return false;
  for (const int old : watches_) ::inotify_rm_watch(events_.number(), old);
  watches_.clear();
  tickets_ = tickets;
  bool watching = true;
  for (const std::string& ticket : tickets) watching = watch(folder_.path / "waiting" / ticket) && watching;
  if (tickets.empty()) watching = watch(folder_.path) && watch(folder_.path / "waiting");
  if (!watching) events_ = FileDescriptor();
  return watching;
}

bool ReleaseWatch::watch(const std::filesystem::path& path) {
  const int number = ::inotify_add_watch(events_.number(), path.c_str(), IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE);
  if (number >= 0) watches_.push_back(number);
  return number >= 0 || errno == ENOENT;  // a ticket that has just gone is seen by the next look
}

bool ReleaseWatch::wait(std::chrono::milliseconds at_most) const {
  constexpr std::chrono::milliseconds without_notice(10);
  if (!events_) {
    std::this_thread::sleep_for(std::min(at_most, without_notice));
    return false;
  }
  pollfd look{events_.number(), POLLIN, 0};
  if (::poll(&look, 1, static_cast<int>(std::max<std::int64_t>(0, at_most.count()))) <= 0) return false;
  alignas(inotify_event) std::array<char, 16384> block;
  while (::read(events_.number(), block.data(), block.size()) > 0) {
  }
  return true;
}

}  // namespace muster::lease

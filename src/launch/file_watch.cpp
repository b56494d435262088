#include "launch/file_watch.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <set>

namespace muster::launch {

FileWatch::FileWatch() : events_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

bool FileWatch::add(const std::filesystem::path& file, Id id) {
  if (!events_) return false;
  const int number = ::inotify_add_watch(events_.number(), file.c_str(), IN_MODIFY);
  if (number < 0) return false;
  ids_.emplace(number, id);
  return true;
}

std::vector<FileWatch::Id> FileWatch::changed() {
  alignas(inotify_event) std::array<char, 16384> block;
  ssize_t got = 0;
  do got = ::read(events_.number(), block.data(), block.size());
  while (got < 0 && errno == EINTR);
  std::set<int> numbers;
  bool overflow = false;  // notices were lost: any file may have changed
  for (std::size_t at = 0; got > 0 && at < static_cast<std::size_t>(got);) {
    inotify_event event;
    std::memcpy(&event, block.data() + at, sizeof event);
    if ((event.mask & IN_Q_OVERFLOW) != 0) overflow = true;
    numbers.insert(event.wd);
    at += sizeof event + event.len;
  }
  std::vector<Id> ids;
  for (const auto& [number, id] : ids_)
    if (overflow || numbers.contains(number)) ids.push_back(id);
  return ids;
}

}  // namespace muster::launch

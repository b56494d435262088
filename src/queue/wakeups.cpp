#include "queue/wakeups.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "system/files.hpp"

namespace muster::queue {
namespace {

constexpr Wakeups::Token inbox_token = 0;

}  // namespace

Result<Wakeups> Wakeups::watching(const std::filesystem::path& inbox) {
  Wakeups wakeups;
  wakeups.events_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  wakeups.inbox_ = FileDescriptor(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!wakeups.events_ || !wakeups.inbox_ ||
      ::inotify_add_watch(wakeups.inbox_.number(), inbox.c_str(), IN_MOVED_TO) < 0 ||
      !wakeups.watch(wakeups.inbox_, inbox_token))
    return Error{Error::Kind::failed, fmt::format("cannot watch {}: {}", inbox.string(), system_reason()),
                 "raise fs.inotify.max_user_instances"};
  return wakeups;
}

bool Wakeups::watch(const FileDescriptor& process, Token token) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token;
  return ::epoll_ctl(events_.number(), EPOLL_CTL_ADD, process.number(), &event) == 0;
}

std::vector<Wakeups::Token> Wakeups::wait(std::chrono::milliseconds pause) const {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(events_.number(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(std::max(pause, std::chrono::milliseconds(0)).count()));
  std::vector<Token> ended;
  for (int position = 0; position < count; ++position) {
    const Token token = events[static_cast<std::size_t>(position)].data.u64;
    if (token != inbox_token) {
      ended.push_back(token);
      continue;
    }
    std::array<char, 4096> ignored;
    while (::read(inbox_.number(), ignored.data(), ignored.size()) > 0) {
    }
  }
  return ended;
}

}  // namespace muster::queue

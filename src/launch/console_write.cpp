#include "launch/console_write.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace muster::launch {

void console_write(int console, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(console, text.data(), text.size());
    if (put >= 0) {
      text.remove_prefix(static_cast<std::size_t>(put));
    } else if (errno == EAGAIN) {
      // Another process that shares the console has made it non-blocking.
      pollfd look{console, POLLOUT, 0};
      ::poll(&look, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace muster::launch

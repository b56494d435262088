#include "rendezvous/connection.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace muster::rendezvous {
namespace {

// Larger buffers are given back when they are empty.
constexpr std::size_t kept_buffer = 64 * 1024;

void forget(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > kept_buffer) buffer = std::string();
}

}  // namespace

std::optional<std::string_view> Connection::read(std::string& scratch) {
  std::string& into = unused_.empty() ? scratch : unused_;
  const std::size_t before = unused_.size();
  if (before > 0) unused_.resize(before + scratch.size());
  const ssize_t size = ::recv(descriptor(), into.data() + before, scratch.size(), MSG_DONTWAIT);
  const int reason = errno;
  if (before > 0) unused_.resize(before + static_cast<std::size_t>(size > 0 ? size : 0));
  if (size > 0) return std::string_view(into.data(), before + static_cast<std::size_t>(size));
  if (size < 0 && (reason == EAGAIN || reason == EINTR)) return std::nullopt;
  return std::string_view();
}

void Connection::use(std::string_view view, std::size_t size) {
  const bool was_kept = !unused_.empty();
  if (size == view.size())
    forget(unused_);
  else if (was_kept)
    unused_.erase(0, size);
  else
    unused_.assign(view.substr(size));
}

void Connection::queue(std::string_view bytes) {
  // A peer that is always a little behind would otherwise never let go of what it has got.
  if (sent_ > unsent_.size() / 2) {
    unsent_.erase(0, sent_);
    sent_ = 0;
  }
  unsent_.append(bytes);
}

bool Connection::write() {
  while (queued() > 0) {
    const ssize_t size = ::send(descriptor(), unsent_.data() + sent_, queued(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return true;
    if (size < 0) return false;
    sent_ += static_cast<std::size_t>(size);
  }
  forget(unsent_);
  sent_ = 0;
  return true;
}

}  // namespace muster::rendezvous

#include "rendezvous/agent_link.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/duration.hpp"
#include "system/files.hpp"

namespace muster::rendezvous {
namespace {

using std::chrono::milliseconds;

// Thousands may join in the same second: until the first answer more patience is due than later.
constexpr milliseconds patience_before_welcome(30000);
// An agent says little. A coordinator that leaves this much unread will not read the rest.
constexpr std::size_t most_unsent = 4 * longest_message;
// Per call, so that a flood keeps nobody from their other work; what is left makes the descriptor ready again.
constexpr int most_reads = 64;

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK; }

Error coordinator_gone(const std::string& why) {
  return {Error::Kind::failed, "the coordinator of the run is gone: " + why,
          "look at what the agent of the first host wrote"};
}

}  // namespace

AgentLink::AgentLink(FileDescriptor socket, const Join& join, std::string secret, Clock::time_point now)
    : socket_(std::move(socket)),
      channel_(SealedChannel::Side::agent, std::move(secret)),
      last_alive_(now),
      last_heard_(now),
      last_look_(now) {
  unsent_ = channel_.opening();
  send(join);
}

void AgentLink::send(const AgentMessage& message) {
  if (broken_) return;
  if (channel_.established())
    unsent_ += channel_.seal(encode(message));
  else
    waiting_.push_back(encode(message));
  write_unsent();
  if (unsent_.size() > most_unsent)
    broken_ = fmt::format("it has left {} bytes unread, at most {} can wait", unsent_.size(), most_unsent);
}

// A connection that takes nothing more may still hold the last words of the other side: reading tells that it ended.
void AgentLink::write_unsent() {
  std::size_t written = 0;
  while (written < unsent_.size()) {
    const ssize_t count =
        ::send(socket_.number(), unsent_.data() + written, unsent_.size() - written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      if (!must_wait()) written = unsent_.size();
      break;
    }
  }
  unsent_.erase(0, written);
}

Result<std::vector<CoordinatorMessage>> AgentLink::receive(Clock::time_point now) {
  if (broken_) return coordinator_gone(*broken_);
  write_unsent();
  read_what_came(now);
  std::vector<CoordinatorMessage> messages = take_messages();
  write_unsent();  // what the handshake led to
  if (!broken_) keep_alive(now);
  if (broken_ && messages.empty()) return coordinator_gone(*broken_);
  return messages;
}

void AgentLink::read_what_came(Clock::time_point now) {
  std::array<char, 64 * 1024> buffer;
  for (int reads = 0; reads < most_reads; ++reads) {
    const ssize_t count = ::recv(socket_.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) {
      last_heard_ = now;
      received_.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0) {
      broken_ = "its connection ended";
      return;
    } else if (errno != EINTR) {
      if (!must_wait()) broken_ = "its connection ended: " + system_reason();
      return;
    }
  }
}

std::vector<CoordinatorMessage> AgentLink::take_messages() {
  std::vector<CoordinatorMessage> messages;
  const std::string_view bytes = received_;
  std::size_t used = 0;
  bool usable = true;
  for (auto end = bytes.find('\n'); end != bytes.npos && usable; end = bytes.find('\n', used)) {
    usable = take_line(bytes.substr(used, end - used), messages);
    used = end + 1;
  }
  received_.erase(0, used);
  if (received_.size() > channel_.longest_line() && !broken_) broken_ = "it sent a message without an end";
  return messages;
}

// False: nothing that follows can be used.
bool AgentLink::take_line(std::string_view line, std::vector<CoordinatorMessage>& messages) {
  const SealedChannel::Heard heard = channel_.hear(line);
  if (heard.broken) {
    broken_ = *heard.broken;
    return false;
  }
  unsent_ += heard.reply;
  if (channel_.established())
    for (const std::string& waiting : std::exchange(waiting_, {})) unsent_ += channel_.seal(waiting);
  if (heard.refused) messages.push_back(*heard.refused);
  if (!heard.message) return true;
  auto message = decode_coordinator_message(*heard.message);
  if (!message) {
    broken_ = "it sent " + message.error().what;
    return false;
  }
  if (const auto* welcome = std::get_if<Welcome>(&*message)) {
    terms_ = *welcome;
    welcomed_ = true;
  }
  messages.push_back(*std::move(message));
  return true;
}

milliseconds AgentLink::patience() const {
  return welcomed_ ? terms_.silence : std::max(terms_.silence, patience_before_welcome);
}

void AgentLink::keep_alive(Clock::time_point now) {
  // After a pause of our own the silence counts from now: Note [Own pauses] in membership.cpp.
  if (now - last_look_ > terms_.alive_interval + terms_.silence / 2) last_heard_ = now;
  last_look_ = now;
  if (now - last_heard_ >= patience()) {
    broken_ = fmt::format("nothing was heard from it for {}", to_string(patience()));
    return;
  }
  if (now - last_alive_ < terms_.alive_interval) return;
  last_alive_ = now;
  // What still waits to be sent will be a sign of life itself.
  if (unsent_.empty() && channel_.established()) send(Alive{});
}

Clock::time_point AgentLink::next_deadline() const {
  if (broken_) return last_heard_;
  return std::min(last_alive_ + terms_.alive_interval, last_heard_ + patience());
}

}  // namespace muster::rendezvous

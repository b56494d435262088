#include "launch/keeper/keeper_connection.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "system/files.hpp"

namespace muster::launch {
namespace {

// Both ends are one program: the layout in memory is the format.
struct Header {
  std::uint32_t size = 0;
  std::uint32_t descriptors = 0;
};

constexpr std::size_t descriptor_bytes = KeeperConnection::most_descriptors * sizeof(int);

struct alignas(cmsghdr) ControlSpace {
  std::array<char, CMSG_SPACE(descriptor_bytes)> bytes{};
};

// The descriptors of one sendmsg. They were sent together, so where some are missing the kernel had to drop them.
std::vector<FileDescriptor> descriptors_in(msghdr& received) {
  std::vector<FileDescriptor> descriptors;
  const cmsghdr* control = CMSG_FIRSTHDR(&received);
  if (control != nullptr && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS) {
    std::array<int, KeeperConnection::most_descriptors> numbers{};
    const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::memcpy(numbers.data(), CMSG_DATA(control), count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) descriptors.emplace_back(numbers[i]);
  }
  if ((received.msg_flags & MSG_CTRUNC) != 0) descriptors.resize(KeeperConnection::most_descriptors);
  return descriptors;
}

}  // namespace

Result<std::pair<KeeperConnection, KeeperConnection>> KeeperConnection::open_pair() {
  const auto cannot = [] {
    return Error{Error::Kind::failed, fmt::format("cannot open a pair of sockets: {}", system_reason()),
                 "look at the limit on open files: ulimit -n"};
  };
  std::array<int, 2> numbers{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, numbers.data()) != 0) return cannot();
  FileDescriptor first(numbers[0]);
  FileDescriptor second(numbers[1]);
  first = above_standard_streams(std::move(first));
  second = above_standard_streams(std::move(second));
  if (!first || !second) return cannot();
  return std::pair(KeeperConnection(std::move(first)), KeeperConnection(std::move(second)));
}

void KeeperConnection::queue(const std::string& body, std::vector<int> descriptors) {
  if (!descriptors.empty() && descriptors.size() != most_descriptors)
    throw std::logic_error("a message has no descriptors, or as many as fit");
  const Header header{static_cast<std::uint32_t>(body.size()), static_cast<std::uint32_t>(descriptors.size())};
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  outgoing_.push_back({std::move(bytes) + body, std::move(descriptors)});
}

ssize_t KeeperConnection::send_part(const Outgoing& message) const {
  iovec part{const_cast<char*>(message.bytes.data()) + message.sent, message.bytes.size() - message.sent};
  msghdr sending{};
  sending.msg_iov = &part;
  sending.msg_iovlen = 1;
  ControlSpace control;
  if (message.sent == 0 && !message.descriptors.empty()) {
    sending.msg_control = control.bytes.data();
    sending.msg_controllen = control.bytes.size();
    cmsghdr* head = CMSG_FIRSTHDR(&sending);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptor_bytes);
    std::memcpy(CMSG_DATA(head), message.descriptors.data(), descriptor_bytes);
  }
  return ::sendmsg(socket_.number(), &sending, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool KeeperConnection::send_some() {
  while (!outgoing_.empty()) {
    Outgoing& message = outgoing_.front();
    const ssize_t size = send_part(message);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return false;
    if (size < 0) {
      send_failure_ = Error{Error::Kind::failed, fmt::format("cannot send to the keeper: {}", system_reason()), ""};
      outgoing_.clear();
      break;
    }
    message.sent += static_cast<std::size_t>(size);
    if (message.sent == message.bytes.size()) outgoing_.pop_front();
  }
  return true;
}

Result<void> KeeperConnection::send_all() {
  send_failure_.reset();
  while (!send_some()) {
    pollfd waiting{socket_.number(), POLLOUT, 0};
    ::poll(&waiting, 1, -1);
  }
  if (send_failure_) return *send_failure_;
  return {};
}

bool KeeperConnection::receive_part() {
  std::array<char, 65536> space;
  ControlSpace control;
  iovec part{space.data(), space.size()};
  msghdr receiving{};
  receiving.msg_iov = &part;
  receiving.msg_iovlen = 1;
  receiving.msg_control = control.bytes.data();
  receiving.msg_controllen = control.bytes.size();
  const ssize_t size = ::recvmsg(socket_.number(), &receiving, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0 && errno == EINTR) return true;
  if (size < 0 && errno == EAGAIN) return false;
  if (size <= 0) {
    ended_ = true;
    return false;
  }
  for (FileDescriptor& descriptor : descriptors_in(receiving)) descriptors_.push_back(std::move(descriptor));
  incoming_.append(space.data(), static_cast<std::size_t>(size));
  return true;
}

void KeeperConnection::take_messages(std::vector<ReceivedMessage>& messages) {
  std::size_t taken = 0;
  Header header;
  while (incoming_.size() - taken >= sizeof header) {
    std::memcpy(&header, incoming_.data() + taken, sizeof header);
    if (incoming_.size() - taken - sizeof header < header.size) break;
    ReceivedMessage& message = messages.emplace_back();
    message.body = incoming_.substr(taken + sizeof header, header.size);
    // Descriptors arrive no later than the first byte of their message.
    for (std::uint32_t i = 0; i < header.descriptors && !descriptors_.empty(); ++i) {
      message.descriptors.push_back(std::move(descriptors_.front()));
      descriptors_.pop_front();
    }
    taken += sizeof header + header.size;
  }
  incoming_.erase(0, taken);
}

std::vector<ReceivedMessage> KeeperConnection::receive() {
  std::vector<ReceivedMessage> messages;
  while (!ended_ && receive_part()) take_messages(messages);
  return messages;
}

}  // namespace muster::launch

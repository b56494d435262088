#include "rendezvous/peer_user.hpp"

#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "system/files.hpp"
#include "base/text.hpp"

namespace muster::rendezvous {
namespace {

// From the kernel's table of TCP states: a listening socket is not the end of a connection.
constexpr int listening_state = 10;

// A closed socket that the kernel still keeps (it has data to deliver) belongs to nobody and is shown as root's: it has
// no inode. Whoever closes before it is asked about gets no answer anyway.
PeerUser held_by(uid_t user, std::uint64_t inode) {
  if (inode == 0) return {PeerUser::Kind::elsewhere, 0};
  return {PeerUser::Kind::user, user};
}

// ---- netlink ----

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 request{};
};

void set_end(__be16& port, __be32 (&words)[4], const SocketAddress& address) {
  port = htons(address.port());
  if (address.family() == AF_INET) {
    words[0] = reinterpret_cast<const sockaddr_in*>(address.address())->sin_addr.s_addr;
  } else {
    std::memcpy(words, &reinterpret_cast<const sockaddr_in6*>(address.address())->sin6_addr, sizeof(in6_addr));
  }
}

Question question_about(const ConnectionEnds& ends) {
  Question question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = static_cast<__u8>(ends.other.family());
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0U;
  inet_diag_sockid& id = question.request.id;
  set_end(id.idiag_sport, id.idiag_src, ends.other);
  set_end(id.idiag_dport, id.idiag_dst, ends.own);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return question;
}

PeerUser read_answer(const char* bytes, std::size_t size) {
  nlmsghdr header{};
  if (size < sizeof header) return {};
  std::memcpy(&header, bytes, sizeof header);
  if (header.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error{};
    if (size < sizeof header + sizeof error) return {};
    std::memcpy(&error, bytes + sizeof header, sizeof error);
    return error.error == -ENOENT ? PeerUser{PeerUser::Kind::elsewhere, 0} : PeerUser{};
  }
  inet_diag_msg facts{};
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || size < sizeof header + sizeof facts) return {};
  std::memcpy(&facts, bytes + sizeof header, sizeof facts);
  if (facts.idiag_state == listening_state) return {PeerUser::Kind::elsewhere, 0};
  return held_by(facts.idiag_uid, facts.idiag_inode);
}

PeerUser ask_kernel(const ConnectionEnds& ends) {
  const FileDescriptor netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) return {};
  const Question question = question_about(ends);
  if (::send(netlink.number(), &question, sizeof question, 0) != sizeof question) return {};
  std::array<char, 8192> answer{};
  // The kernel answers within send().
  const ssize_t size = ::recv(netlink.number(), answer.data(), answer.size(), MSG_DONTWAIT);
  return size > 0 ? read_answer(answer.data(), static_cast<std::size_t>(size)) : PeerUser{};
}

// ---- /proc/net/tcp ----

// As the table writes it: the address in words of the machine's byte order, the port as a number.
std::string as_in_table(const SocketAddress& address, bool version_6) {
  std::array<std::uint32_t, 4> words{0, 0, htonl(0xffff), 0};
  if (address.family() == AF_INET)
    words[3] = reinterpret_cast<const sockaddr_in*>(address.address())->sin_addr.s_addr;
  else
    std::memcpy(words.data(), &reinterpret_cast<const sockaddr_in6*>(address.address())->sin6_addr, sizeof words);
  std::string text;
  for (std::size_t i = version_6 ? 0 : 3; i < words.size(); ++i) text += fmt::format("{:08X}", words[i]);
  return text + fmt::format(":{:04X}", address.port());
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t at = line.find_first_not_of(' '); at != line.npos; at = line.find_first_not_of(' ', at)) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = end;
  }
  return fields;
}

PeerUser look_into_tables(const ConnectionEnds& ends) {
  bool any = false;
  // A socket of version 6 may hold a connection of version 4.
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto table = read_file(path);
    if (!table) continue;
    any = true;
    const PeerUser found = find_in_socket_table(*table, ends);
    if (found.kind == PeerUser::Kind::user) return found;
  }
  return any ? PeerUser{PeerUser::Kind::elsewhere, 0} : PeerUser{};
}

}  // namespace

PeerUser find_in_socket_table(std::string_view table, const ConnectionEnds& ends) {
  for (std::size_t at = 0; at < table.size();) {
    const std::size_t end = std::min(table.find('\n', at), table.size());
    const auto fields = fields_of(table.substr(at, end - at));
    at = end + 1;
    if (fields.size() < 10) continue;
    const bool version_6 = fields[1].size() > 13;  // 8 digits, a colon, 4 digits
    if (ends.other.family() == AF_INET6 && !version_6) continue;
    if (fields[1] != as_in_table(ends.other, version_6) || fields[2] != as_in_table(ends.own, version_6)) continue;
    const auto user = parse_number<uid_t>(fields[7]);
    const auto inode = parse_number<std::uint64_t>(fields[9]);
    if (user && inode) return held_by(*user, *inode);
  }
  return {PeerUser::Kind::elsewhere, 0};
}

std::optional<ConnectionEnds> ends_of(const FileDescriptor& socket) {
  const auto ask = [&](auto get_name) -> std::optional<SocketAddress> {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    if (get_name(socket.number(), reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
    return SocketAddress(reinterpret_cast<const sockaddr*>(&storage), std::min<socklen_t>(size, sizeof storage));
  };
  const auto other = ask(::getpeername), own = ask(::getsockname);
  if (!other || !own) return std::nullopt;
  return ConnectionEnds{*other, *own};
}

PeerUser peer_user(const ConnectionEnds& ends) {
  const PeerUser answer = ask_kernel(ends);
  return answer.kind == PeerUser::Kind::unknown ? look_into_tables(ends) : answer;
}

}  // namespace muster::rendezvous

#include "rendezvous/store_client.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/duration.hpp"
#include "system/files.hpp"

namespace muster::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr char key_prefix = '/';

// A longer text, or more of them, is not a reply of a store.
constexpr std::uint64_t longest_text = std::uint64_t{1} << 40;
constexpr std::int64_t most_texts = std::int64_t{1} << 32;
// Memory for a text is taken as it comes, in such parts: its length alone does not justify taking much.
constexpr std::uint64_t text_part = std::uint64_t{16} << 20;

std::string prefixed(std::string_view key) { return key_prefix + std::string(key); }

// The same keys as the store has them; lives as long as the request that shows them.
class PrefixedKeys {
 public:
  explicit PrefixedKeys(std::span<const std::string> keys) {
    texts_.reserve(keys.size());
    for (const std::string& key : keys) texts_.push_back(prefixed(key));
  }
  std::vector<std::string_view> views() const { return {texts_.begin(), texts_.end()}; }

 private:
  std::vector<std::string> texts_;
};

std::string list(std::span<const std::string> keys) {
  constexpr std::size_t shown = 5;
  const std::string some = fmt::format("{}", fmt::join(keys.first(std::min(shown, keys.size())), ", "));
  return keys.size() <= shown ? some : fmt::format("{} and {} more", some, keys.size() - shown);
}

}  // namespace

Result<StoreClient> StoreClient::connect(const std::vector<SocketAddress>& addresses, milliseconds timeout) {
  auto socket = connect_to(addresses, Clock::now() + timeout);
  if (!socket) return socket.error();
  StoreClient client(std::move(*socket), to_string(addresses.front()), timeout);
  if (auto sent = client.send({.command = StoreCommand::validate, .number = store_magic}); !sent) return sent.error();
  if (auto answered = client.ping(); !answered) return answered.error();
  return client;
}

// ---- values ----

Result<void> StoreClient::set(std::string_view key, std::string_view value) {
  return send({.command = StoreCommand::set, .key = prefixed(key), .value = value});
}

Result<std::string> StoreClient::get(std::string_view key) {
  const std::string name(key);
  if (auto waited = wait({&name, 1}, timeout_); !waited) return waited.error();
  if (auto sent = send({.command = StoreCommand::get, .key = prefixed(key)}); !sent) return sent.error();
  return receive_text();
}

Result<std::int64_t> StoreClient::add(std::string_view key, std::int64_t amount) {
  if (auto sent = send({.command = StoreCommand::add, .key = prefixed(key), .amount = amount}); !sent)
    return sent.error();
  return receive_number();
}

Result<std::string> StoreClient::compare_set(std::string_view key, std::string_view expected,
                                             std::string_view desired) {
  const StoreCommand command = StoreCommand::compare_set;
  if (auto sent = send({.command = command, .key = prefixed(key), .value = expected, .desired = desired}); !sent)
    return sent.error();
  return receive_text();
}

Result<void> StoreClient::append(std::string_view key, std::string_view value) {
  return send({.command = StoreCommand::append, .key = prefixed(key), .value = value});
}

Result<bool> StoreClient::erase(std::string_view key) {
  if (auto sent = send({.command = StoreCommand::delete_key, .key = prefixed(key)}); !sent) return sent.error();
  const auto erased = receive_number();
  if (!erased) return erased.error();
  return *erased > 0;
}

Result<std::vector<std::string>> StoreClient::multiple_get(std::span<const std::string> keys) {
  if (auto waited = wait(keys, timeout_); !waited) return waited.error();
  const PrefixedKeys names(keys);
  if (auto sent = send({.command = StoreCommand::multiple_get, .keys = names.views()}); !sent) return sent.error();
  return receive_texts(keys.size());
}

Result<void> StoreClient::multiple_set(std::span<const std::pair<std::string, std::string>> entries) {
  std::vector<std::string> keys;
  StoreRequest request{.command = StoreCommand::multiple_set};
  for (const auto& [key, value] : entries) {
    keys.push_back(key);
    request.values.push_back(value);
  }
  const PrefixedKeys names(keys);
  request.keys = names.views();
  return send(request);
}

// ---- keys ----

Result<bool> StoreClient::check(std::span<const std::string> keys) {
  const PrefixedKeys names(keys);
  if (auto sent = send({.command = StoreCommand::check, .keys = names.views()}); !sent) return sent.error();
  const auto answer = receive_byte();
  if (!answer) return answer.error();
  return *answer == static_cast<std::uint8_t>(Readiness::ready);
}

Result<void> StoreClient::wait(std::span<const std::string> keys, milliseconds longest) {
  const PrefixedKeys names(keys);
  if (auto sent = send({.command = StoreCommand::wait, .keys = names.views()}); !sent) return sent;
  return receive_end(longest, fmt::format("the keys {}", list(keys)));
}

Result<std::vector<std::string>> StoreClient::list_keys() {
  if (auto sent = send({.command = StoreCommand::list_keys}); !sent) return sent.error();
  const auto count = receive_number();
  if (!count) return count.error();
  if (*count < 0 || *count > most_texts) return broken(fmt::format("answered that it has {} keys", *count));
  auto keys = receive_texts(static_cast<std::size_t>(*count));
  if (!keys) return keys;
  std::erase_if(*keys, [](const std::string& key) { return !key.starts_with(key_prefix); });
  for (std::string& key : *keys) key.erase(0, 1);
  return keys;
}

Result<std::int64_t> StoreClient::number_of_keys() {
  if (auto sent = send({.command = StoreCommand::number_of_keys}); !sent) return sent.error();
  return receive_number();
}

// ---- queues ----

Result<void> StoreClient::queue_push(std::string_view key, std::string_view value) {
  return send({.command = StoreCommand::queue_push, .key = prefixed(key), .value = value});
}

Result<std::optional<std::string>> StoreClient::queue_pop(std::string_view key) {
  if (auto sent = send({.command = StoreCommand::queue_pop, .key = prefixed(key)}); !sent) return sent.error();
  const auto length = receive_number();
  if (!length) return length.error();
  if (*length <= 0) return std::optional<std::string>();
  auto value = receive_text();
  if (!value) return value.error();
  return std::optional(std::move(*value));
}

Result<std::int64_t> StoreClient::queue_length(std::string_view key) {
  if (auto sent = send({.command = StoreCommand::queue_length, .key = prefixed(key)}); !sent) return sent.error();
  return receive_number();
}

// ---- everyone ----

Result<void> StoreClient::barrier(std::string_view key, std::int64_t count, milliseconds longest) {
  if (auto sent = send({.command = StoreCommand::barrier, .key = prefixed(key), .amount = count}); !sent) return sent;
  return receive_end(longest, fmt::format("{} at the barrier {}", count, key));
}

Result<void> StoreClient::ping() {
  const auto number = static_cast<std::uint32_t>(::getpid());
  if (auto sent = send({.command = StoreCommand::ping, .number = number}); !sent) return sent;
  std::uint32_t answer = 0;
  if (auto received = receive_bytes(&answer, sizeof answer); !received) return received;
  if (answer != number) return broken(fmt::format("answered {} to ping {}", answer, number));
  return {};
}

// ---- bytes ----

Result<void> StoreClient::send(const StoreRequest& request) {
  if (broken_) return *broken_;
  std::string bytes;
  encode(request, bytes);
  const Deadline deadline = reply_deadline();
  for (std::string_view left = bytes; !left.empty();) {
    const ssize_t size = ::send(socket_.number(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size > 0) {
      left.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno != EAGAIN && errno != EINTR) {
      return broken(fmt::format("is gone: {}", system_reason()));
    } else if (!becomes_ready(POLLOUT, deadline)) {
      return broken(fmt::format("did not read for {}", to_string(timeout_)));
    }
  }
  return {};
}

Result<void> StoreClient::receive_bytes(void* into, std::size_t size) {
  const Deadline deadline = reply_deadline();
  for (char* at = static_cast<char*>(into); size > 0;) {
    const ssize_t got = ::recv(socket_.number(), at, size, MSG_DONTWAIT);
    if (got > 0) {
      at += got;
      size -= static_cast<std::size_t>(got);
    } else if (got == 0) {
      return broken("closed the connection: it is ending, or refused the request");
    } else if (errno != EAGAIN && errno != EINTR) {
      return broken(fmt::format("is gone: {}", system_reason()));
    } else if (!becomes_ready(POLLIN, deadline)) {
      return broken(fmt::format("did not answer within {}", to_string(timeout_)));
    }
  }
  return {};
}

Result<std::uint8_t> StoreClient::receive_byte() {
  std::uint8_t byte = 0;
  if (auto received = receive_bytes(&byte, sizeof byte); !received) return received.error();
  return byte;
}

Result<std::int64_t> StoreClient::receive_number() {
  std::int64_t number = 0;
  if (auto received = receive_bytes(&number, sizeof number); !received) return received.error();
  return number;
}

Result<std::string> StoreClient::receive_text() {
  std::uint64_t size = 0;
  if (auto received = receive_bytes(&size, sizeof size); !received) return received.error();
  if (size > longest_text) return broken(fmt::format("answered with a text of {} bytes", size));
  std::string text;
  while (text.size() < size) {
    const std::size_t before = text.size();
    text.resize(std::min(size, before + text_part));
    if (auto received = receive_bytes(text.data() + before, text.size() - before); !received) return received.error();
  }
  return text;
}

Result<std::vector<std::string>> StoreClient::receive_texts(std::size_t count) {
  std::vector<std::string> texts;
  for (; texts.size() < count;) {
    auto text = receive_text();
    if (!text) return text.error();
    texts.push_back(std::move(*text));
  }
  return texts;
}

Result<void> StoreClient::receive_end(milliseconds longest, const std::string& awaited) {
  if (!becomes_ready(POLLIN, Clock::now() + longest)) {
    if (auto cancelled = cancel(); !cancelled) return cancelled;
    return Error{Error::Kind::failed, fmt::format("waited {} for {}", to_string(longest), awaited),
                 "look at the ranks that should have come by now"};
  }
  const auto end = receive_byte();
  if (!end) return end.error();
  if (*end != static_cast<std::uint8_t>(WaitEnd::over)) return broken(fmt::format("answered {} to a wait", *end));
  return {};
}

// The wait may end in the moment it is cancelled; then its end comes before the answer to this.
Result<void> StoreClient::cancel() {
  if (auto sent = send({.command = StoreCommand::cancel_wait}); !sent) return sent;
  auto answer = receive_byte();
  if (answer && *answer == static_cast<std::uint8_t>(WaitEnd::over)) answer = receive_byte();
  if (!answer) return answer.error();
  if (*answer != static_cast<std::uint8_t>(WaitEnd::cancelled))
    return broken(fmt::format("answered {} to the cancelling of a wait", *answer));
  return {};
}

bool StoreClient::becomes_ready(short events, Deadline deadline) const {
  pollfd waiting{socket_.number(), events, 0};
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    const auto slice = std::clamp(left, milliseconds(0), milliseconds(3600 * 1000));
    if (::poll(&waiting, 1, static_cast<int>(slice.count())) > 0) return true;
    if (left <= slice && Clock::now() >= deadline) return false;
  }
}

Error StoreClient::broken(std::string_view how) {
  broken_ = Error{Error::Kind::failed, fmt::format("the store at {} {}", server_, how), ""};
  return *broken_;
}

}  // namespace muster::rendezvous

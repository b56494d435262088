// A client of the store, ours or torch's, that blocks. Its keys are those of torch's clients: on the wire they begin
// with a "/". One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "system/socket.hpp"
#include "rendezvous/store_protocol.hpp"

namespace muster::rendezvous {

class StoreClient {
 public:
  // timeout: for the connection to be made, and from then on for each reply. After a reply that did not come, other
  // than that to a wait, every call fails: what comes next could not be told apart.
  static Result<StoreClient> connect(const std::vector<SocketAddress>& addresses, std::chrono::milliseconds timeout);

  // ---- values ----
  Result<void> set(std::string_view key, std::string_view value);
  Result<std::string> get(std::string_view key);  // waits until there is one
  Result<std::int64_t> add(std::string_view key, std::int64_t amount);
  Result<std::string> compare_set(std::string_view key, std::string_view expected, std::string_view desired);
  Result<void> append(std::string_view key, std::string_view value);
  Result<bool> erase(std::string_view key);                                          // whether there was one
  Result<std::vector<std::string>> multiple_get(std::span<const std::string> keys);  // waits until all are there
  Result<void> multiple_set(std::span<const std::pair<std::string, std::string>> entries);

  // ---- keys ----
  Result<bool> check(std::span<const std::string> keys);  // whether all are there
  Result<void> wait(std::span<const std::string> keys, std::chrono::milliseconds longest);
  Result<std::vector<std::string>> list_keys();
  Result<std::int64_t> number_of_keys();  // those of other clients included, whatever they begin with

  // ---- queues ----
  Result<void> queue_push(std::string_view key, std::string_view value);
  Result<std::optional<std::string>> queue_pop(std::string_view key);  // nothing: it is empty
  Result<std::int64_t> queue_length(std::string_view key);

  // Waits until that many have called it with this key.
  Result<void> barrier(std::string_view key, std::int64_t count, std::chrono::milliseconds longest);
  Result<void> ping();

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  StoreClient(FileDescriptor socket, std::string server, std::chrono::milliseconds timeout)
      : socket_(std::move(socket)), server_(std::move(server)), timeout_(timeout) {}

  Result<void> send(const StoreRequest& request);
  Result<void> receive_bytes(void* into, std::size_t size);
  Result<std::uint8_t> receive_byte();
  Result<std::int64_t> receive_number();
  Result<std::string> receive_text();
  Result<std::vector<std::string>> receive_texts(std::size_t count);
  // The end of the wait or barrier just asked for. awaited is for the message.
  Result<void> receive_end(std::chrono::milliseconds longest, const std::string& awaited);
  Result<void> cancel();

  bool becomes_ready(short events, Deadline deadline) const;
  Deadline reply_deadline() const { return std::chrono::steady_clock::now() + timeout_; }
  Error broken(std::string_view how);

  FileDescriptor socket_;
  std::string server_;  // for messages
  std::chrono::milliseconds timeout_;
  std::optional<Error> broken_;
};

}  // namespace muster::rendezvous

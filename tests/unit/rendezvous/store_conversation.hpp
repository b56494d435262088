// Clients that talk with a KeyValueStore without sockets, in requests and in the bytes of replies.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "collecting_outbox.hpp"
#include "rendezvous/key_value_store.hpp"
#include "rendezvous/store_protocol.hpp"

namespace muster::rendezvous {

inline std::string bytes_of(const StoreRequest& request) {
  std::string bytes;
  encode(request, bytes);
  return bytes;
}

// ---- replies as the store writes them ----
inline const std::string over(1, '\0');
inline const std::string cancelled(1, '\1');
inline const std::string ready(1, '\0');
inline const std::string not_ready(1, '\1');
inline std::string number(std::int64_t value) {
  std::string bytes;
  append_number(bytes, value);
  return bytes;
}
inline std::string text(std::string_view value) {
  std::string bytes;
  append_text(bytes, value);
  return bytes;
}

// ---- requests ----
inline StoreRequest set(std::string_view key, std::string_view value) {
  return {.command = StoreCommand::set, .key = key, .value = value};
}
inline StoreRequest get(std::string_view key) { return {.command = StoreCommand::get, .key = key}; }
inline StoreRequest add(std::string_view key, std::int64_t amount) {
  return {.command = StoreCommand::add, .key = key, .amount = amount};
}
inline StoreRequest wait(std::vector<std::string_view> keys) {
  return {.command = StoreCommand::wait, .keys = std::move(keys)};
}
inline StoreRequest check(std::vector<std::string_view> keys) {
  return {.command = StoreCommand::check, .keys = std::move(keys)};
}
inline StoreRequest push(std::string_view key, std::string_view value) {
  return {.command = StoreCommand::queue_push, .key = key, .value = value};
}
inline StoreRequest pop(std::string_view key) { return {.command = StoreCommand::queue_pop, .key = key}; }
inline StoreRequest barrier(std::string_view key, std::int64_t count) {
  return {.command = StoreCommand::barrier, .key = key, .amount = count};
}
inline StoreRequest plain(StoreCommand command) { return {.command = command}; }
inline StoreRequest validation() { return {.command = StoreCommand::validate, .number = store_magic}; }

class Conversation {
 public:
  explicit Conversation(StoreLimits limits = {}) : store_(KeyValueStore::make(outbox_, limits)) {}

  KeyValueStore& store() { return *store_; }

  ConnectionId open() {
    const ConnectionId connection = open_unvalidated();
    static_cast<void>(raw(connection, bytes_of(validation())));
    return connection;
  }
  ConnectionId open_unvalidated() {
    const ConnectionId connection{++last_};
    store_->opened(connection, "here");
    return connection;
  }
  void close(ConnectionId connection) { store_->closed(connection); }

  // How much of the bytes was used; nothing: junk.
  std::optional<std::size_t> raw(ConnectionId connection, const std::string& bytes) {
    return store_->received(connection, bytes);
  }
  // Asks and returns what the client has been told since.
  std::string ask(ConnectionId connection, const StoreRequest& request) {
    const std::string bytes = bytes_of(request);
    if (raw(connection, bytes) != bytes.size()) return "refused";
    return heard(connection);
  }
  std::string heard(ConnectionId connection) { return outbox_.take(connection); }

 private:
  CollectingOutbox outbox_;
  std::unique_ptr<KeyValueStore> store_;
  std::uint64_t last_ = 0;
};

}  // namespace muster::rendezvous

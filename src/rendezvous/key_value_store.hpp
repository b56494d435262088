// The key-value store that ranks find each other through, compatible with torch's TCPStore: the server side.
#pragma once

#include <cstddef>
#include <memory>

#include "rendezvous/connection_handler.hpp"

namespace muster::rendezvous {

// The first byte of a store client: the command VALIDATE.
inline constexpr char store_first_byte = '\0';

struct StoreLimits {
  std::size_t key_bytes = 8 * 1024;
  std::size_t value_bytes = std::size_t{8} << 20;
  std::size_t keys_per_request = 128 * 1024;
  std::size_t total_bytes = std::size_t{1} << 30;  // keys, values, queues and waits together, with what containers add
  std::size_t reply_bytes = std::size_t{256} << 20;  // to what a client sent at once: a short request can ask for much
};

// The handler of store connections. A client that sends what is malformed or goes beyond the limits is closed; the
// others notice nothing.
class KeyValueStore : public ConnectionHandler {
 public:
  static std::unique_ptr<KeyValueStore> make(Outbox& outbox, StoreLimits limits = {});

  // Forgets every key, queue and wait: a new round begins with an empty store. Connections stay.
  virtual void clear() = 0;
  // Keys now, and bytes held: for tests and reports.
  virtual std::size_t size() const = 0;
  virtual std::size_t bytes() const = 0;
};

}  // namespace muster::rendezvous

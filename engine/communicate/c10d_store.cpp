#include "communicate/c10d_store.hpp"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace muster::communicate {

c10::intrusive_ptr<c10d::Store> connect_store(const Place& place, const std::string& prefix,
                                              std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = place.store_port;
  options.isServer = false;
  options.waitWorkers = false;
  options.timeout = timeout;
  auto store = c10::make_intrusive<c10d::TCPStore>(place.store_address, options);
  return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
}

}  // namespace muster::communicate

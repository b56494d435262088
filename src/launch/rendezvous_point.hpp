// Where the hosts of a run meet: which one serves, at which address, on a socket that is bound before anything else
// happens; and who may come in.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "system/socket.hpp"
#include "launch/launch_request.hpp"
#include "launch/worker_environment.hpp"
#include "rendezvous/connection_server.hpp"
#include "rendezvous/membership.hpp"
#include "rendezvous/store_access.hpp"

namespace muster::launch {

struct BoundRendezvous {
  FileDescriptor listener;               // none where another host serves
  std::vector<SocketAddress> addresses;  // of the serving host; empty where this one serves
  StorePlace store;                      // what ranks get as MASTER_ADDR and MASTER_PORT
  bool serves() const { return static_cast<bool>(listener); }
};

// Binds where this host serves: at the endpoint's address alone. On every interface only where that is not enough to be
// found: an address that is not this host's own (behind a translation of addresses), a name that stands for several, or
// one that this host itself, as many do, has for loopback. A busy port that was named is refused.
Result<BoundRendezvous> bind_rendezvous(const LaunchRequest& request);

// The serving side: the store and the agents on one port, in one thread.
class Coordinator {
 public:
  // secret: of the run, empty only where it is insecure.
  static Result<Coordinator> start(FileDescriptor listener, const LaunchRequest& request, const std::string& secret);

  // An agent of this process comes in by one end of a pair of sockets.
  void adopt(FileDescriptor socket) { server_->adopt(std::move(socket)); }
  // Where the run stands, for people.
  std::string describe();
  // What strangers tried since the last call, for people; each kind of attempt is noted once.
  std::vector<std::string> take_notes();

 private:
  struct Notes {
    std::mutex mutex;
    std::vector<std::string> texts;
  };
  Coordinator() = default;
  std::unique_ptr<Notes> notes_ = std::make_unique<Notes>();
  std::unique_ptr<rendezvous::StoreAccess> access_;  // used on the server's thread
  rendezvous::Membership* membership_ = nullptr;     // owned by the server's handler, used on its thread
  std::unique_ptr<rendezvous::ConnectionServer> server_;  // last: it ends before what it uses
};

}  // namespace muster::launch

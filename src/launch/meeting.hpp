// Where the hosts of a run meet: who serves, at which address, on a socket that is bound before anything else happens.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"
#include "base/socket.hpp"
#include "launch/launch_request.hpp"
#include "launch/worker_environment.hpp"
#include "rendezvous/connection_server.hpp"
#include "rendezvous/membership.hpp"

namespace muster::launch {

struct MeetingPoint {
  FileDescriptor listener;               // none where another host serves
  std::vector<SocketAddress> addresses;  // of the serving host; empty where this one serves
  StorePlace store;                      // what ranks are told; where another host serves, of the first address
  bool serves() const { return static_cast<bool>(listener); }
};

// Binds where this host serves. A busy port that was named is refused.
Result<MeetingPoint> open_meeting(const LaunchRequest& request);

// The serving side: the store and the agents on one port, in one thread.
class Coordinator {
 public:
  static Result<Coordinator> start(FileDescriptor listener, const LaunchRequest& request);

  // An agent of this process comes in by one end of a pair of sockets.
  void adopt(FileDescriptor socket) { server_->adopt(std::move(socket)); }
  // Where the run stands, for people.
  std::string describe();

 private:
  Coordinator() = default;
  rendezvous::Membership* membership_ = nullptr;  // owned by the server's handler, used on its thread
  std::unique_ptr<rendezvous::ConnectionServer> server_;
};

}  // namespace muster::launch

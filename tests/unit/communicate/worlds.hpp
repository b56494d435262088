// Where the conformance suite runs: some ranks, each with its Communicator, in processes or threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "system/file_descriptor.hpp"
#include "communicate/communicator.hpp"
#include "rendezvous/connection_server.hpp"

namespace muster::communicate {

// What a rank does; what it throws is its outcome.
using RankBody = std::function<void(Communicator&)>;

enum class RankEnd { done, threw, could_not_join, killed };
struct RankOutcome {
  RankEnd end = RankEnd::done;
  std::string what;          // of what was thrown
  std::vector<int> missing;  // of a CommunicationError
};

class World {
 public:
  virtual ~World() = default;
  virtual at::Device device(int rank) const = 0;
  // Runs body on every rank and waits for all. absent: ranks that never join.
  virtual std::vector<RankOutcome> run(int size, std::chrono::milliseconds timeout, const RankBody& body,
                                       const std::vector<int>& absent) = 0;
};

// A store on a port of this machine, which answers when serve() has been called; connections made before wait.
class StoreServer {
 public:
  StoreServer();
  ~StoreServer();
  std::uint16_t port() const { return port_; }
  // Starts a thread.
  void serve();

 private:
  FileDescriptor listener_;
  std::uint16_t port_;
  std::unique_ptr<rendezvous::ConnectionServer> server_;
};

std::unique_ptr<World> make_thread_world();
// One process for each rank, forked, over the store that muster serves. gpu: tensors are on GPU 0, which all share.
std::unique_ptr<World> make_process_world(Backend backend, bool gpu);

}  // namespace muster::communicate

// The environment of a rank: torchrun's contract, key by key. Pure.
#pragma once

#include <map>
#include <string>

#include "launch/launch_request.hpp"
#include "rendezvous/agent_message.hpp"

namespace muster::launch {

using Environment = std::map<std::string, std::string>;

// This process's own.
Environment current_environment();

// Where the store of this round answers.
struct StorePlace {
  std::string address;
  std::uint16_t port = 0;
};

// The complete environment of one local rank: the inherited one, with what the contract sets. error_file: empty when
// there are no log files.
Environment worker_environment(const Environment& inherited, const LaunchRequest& request,
                               const RankResources& resources, const rendezvous::Start& round, const StorePlace& store,
                               int local_rank, const std::string& error_file);

}  // namespace muster::launch

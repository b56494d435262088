// This machine's GPUs as the queue allots them.
#pragma once

#include <chrono>
#include <map>

#include "host/host.hpp"
#include "queue/gpu_source.hpp"

namespace muster::service {

class QueueGpus : public queue::GpuSource {
 public:
  explicit QueueGpus(host::HostSources sources);

  Result<queue::GpuListing> look() override;
  std::variant<queue::GpuGrant, std::vector<queue::HeldGpu>, Error> take(std::span<const std::string> names,
                                                                         const std::string& command) override;
  std::optional<std::string> holder_of(const std::string& name) override;

 private:
  struct Refused {
    std::string reason;
    std::chrono::steady_clock::time_point until;
  };

  Result<void> look_for_occupants();
  void refuse_for_a_while(const std::string& name, const std::string& reason);
  std::vector<queue::HeldGpu> held_by_others(std::span<const std::string> names, const std::string& reason);

  host::HostSources sources_;
  lease::LeaseTable leases_;
  host::HostView view_;                    // as last listed: which GPUs there are, and how a mask names them
  std::map<std::string, Refused> refused_;  // GPUs that are not tried again before a given moment
  std::vector<std::string> listed_;  // those that may be used
  std::string failure_;              // of the last look; empty when it succeeded
};

}  // namespace muster::service

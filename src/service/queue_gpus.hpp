// This machine's GPUs as the queue gives them out.
#pragma once

#include "queue/gpu_source.hpp"
#include "service/host.hpp"

namespace muster::service {

class QueueGpus : public queue::GpuSource {
 public:
  explicit QueueGpus(HostSources sources);

  Result<queue::GpuListing> look() override;
  std::variant<queue::GpuGrant, std::vector<queue::HeldGpu>, Error> take(std::span<const std::string> names,
                                                                         const std::string& command) override;
  std::optional<std::string> holder_of(const std::string& name) override;

 private:
  HostSources sources_;
  lease::LeaseTable leases_;
  HostView view_;                    // as last listed: which GPUs there are, and how a mask names them
  std::vector<std::string> listed_;  // those that may be used
  std::string failure_;              // of the last look; empty when it succeeded
};

}  // namespace muster::service

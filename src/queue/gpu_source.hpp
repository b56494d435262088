// The GPUs that the conductor allots, and how it takes them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "lease/lease.hpp"

namespace muster::queue {

// GPUs that a job may use from now on.
struct GpuGrant {
  std::optional<lease::Lease> lease;                             // absent: it wants none
  std::vector<std::pair<std::string, std::string>> environment;  // what its command needs to see them
  std::function<Result<void>()> before_start;  // in the keeper: waits for memory of previous holders; may be empty
};

struct HeldGpu {
  std::string name;
  std::string holder;
};

// One look at the GPUs. Their names stay the same across restarts.
struct GpuListing {
  struct Gpu {
    std::string name;
    std::optional<std::string> sickness;  // it may not be used
  };
  struct Link {
    std::string a, b;
    int worth = 1;  // as in schedule::GpuLink
  };
  std::vector<Gpu> gpus;
  std::vector<Link> links;  // empty if all links are alike
};

class GpuSource {
 public:
  virtual ~GpuSource() = default;
  // To be called first, and again whenever something may have changed. After an Error no GPU can be taken.
  virtual Result<GpuListing> look() = 0;
  // All of them at once and without waiting, or which are held and by what. An Error: it cannot be determined now; the
  // call is repeated later.
  virtual std::variant<GpuGrant, std::vector<HeldGpu>, Error> take(std::span<const std::string> names,
                                                                   const std::string& command) = 0;
  // Its holder, or another reason against it: it was not listed. Absent: it can be taken.
  virtual std::optional<std::string> holder_of(const std::string& name) = 0;
};

}  // namespace muster::queue

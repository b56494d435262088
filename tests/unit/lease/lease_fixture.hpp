// A lease folder of its own for each test, reachable by every user.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "lease/lease.hpp"
#include "testing/environment_variable.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::lease {

using Names = std::vector<ResourceName>;

class LeaseTest : public ::testing::Test {
 protected:
  LeaseTest() { ::chmod(scratch_.path().c_str(), 0755); }

  static Result<Lease> take(LeaseTable& table, const Names& names,
                            std::optional<std::chrono::milliseconds> wait = std::nullopt) {
    return table.acquire(names, Purpose{"test"}, wait);
  }
  // One word for a result, for children to say.
  static std::string word(const Result<Lease>& lease) {
    if (lease) return "granted";
    return lease.error().kind == Error::Kind::refused ? "refused" : to_string(lease.error());
  }

  // Long enough to never end a test that works.
  static constexpr std::chrono::milliseconds patient{120'000};

 private:
  testing::EnvironmentVariable outside_any_lease_{"MUSTER_LEASE", std::nullopt};

 protected:
  testing::ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_.path() / "leases";
  LeaseTable table_{folder_};
};

}  // namespace muster::lease

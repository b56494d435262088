// Who holds which GPU on this machine. A lease is a set of kernel-held file locks, one per GPU, so that it ends exactly
// when the last process that inherited it is dead, however it died. No daemon, no heartbeat, nothing stale to clean.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_count.hpp"
#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster::lease {

class Ticket;

// What is leased: a GPU's or MIG instance's UUID.
using ResourceName = std::string;

// What a holder wrote down about itself when it took a resource.
struct Holder {
  std::optional<pid_t> pid;  // absent when the record could not be written (a full disk)
  std::optional<std::string> user;
  std::optional<std::string> command;
  std::optional<std::int64_t> since;       // seconds since 1970
  std::optional<ByteCount> memory_before;  // used on the device when it was taken: what must come back at the end
  std::string remark;  // what is unusual about how it is held, to follow the rest: ", whose lock file was deleted"
  bool operator==(const Holder&) const = default;
};

// "pid 4711 (alice, python train.py) since 2026-01-31 14:02:11", as far as it is known.
std::string describe(const Holder& holder);

// What the lease is for. Every user of the machine can read what is recorded of it: the label, and of the command only
// its public_name().
struct Purpose {
  std::string command;
  std::string label = {};  // "job 7"
};

// Held until destroyed here and in every process that inherited it.
class Lease {
 public:
  Lease(Lease&&) noexcept = default;
  Lease& operator=(Lease&&) noexcept = default;

  const std::vector<ResourceName>& resources() const { return resources_; }

  // Who held each resource before, where that is known: what a new holder must wait for (memory that is not back yet).
  const std::vector<std::optional<Holder>>& previous_holders() const { return previous_; }

  // Records what was used on the device when it was taken, so that the next holder can tell when it is back. The
  // resource must be one of the lease's.
  void record_memory_before(const ResourceName& resource, ByteCount used);
  // Records that nothing this lease was used for is left: the next holder has nothing to wait for. Erases who held it.
  void settle();

  // Lets programs started with exec keep the lease. Returns the environment variable (name, value) that tells muster
  // commands below that they are inside it: Note [Nested leases] in lease.cpp.
  std::pair<std::string, std::string> pass_on_exec();

  // What holds the lease, for programs that choose one by one what a child inherits.
  std::vector<int> descriptors() const;

 private:
  friend class LeaseTable;
  Lease() = default;
  std::string id_;
  int depth_ = 0;
  std::vector<ResourceName> resources_;
  std::vector<FileDescriptor> locks_;
  std::vector<FileDescriptor> names_;  // Note [A lock file that is deleted]; empty where the system has none
  std::vector<std::optional<Holder>> previous_;
  std::string record_;  // as written, less memory_before
};

// One look at who holds and who waits; given to the chooser of acquire() while the table is closed to others.
struct Occupancy {
  // Absent: free. Present: held; the Holder may be empty when its record is unreadable.
  std::function<std::optional<Holder>(const ResourceName&)> holder_of;
  // Who waits for this resource and came earlier, if anyone.
  std::function<std::optional<Holder>(const ResourceName&)> earlier_waiter_for;
};

class LeaseTable {
 public:
  // The folder shared by all users of the machine. Created on first use; see default_folder(). Reads MUSTER_LEASE of
  // this process's environment once, here.
  explicit LeaseTable(std::filesystem::path folder);

  // $MUSTER_LEASE_DIR, else /run/lock/muster where /run/lock is open to all users, else /tmp/muster-leases: a property
  // of the machine, so that all users agree.
  static std::filesystem::path default_folder();

  const std::filesystem::path& folder() const { return folder_; }

  // Who holds this resource now. Never changes anything, needs no write permission; a missing folder means nobody.
  std::optional<Holder> holder_of(const ResourceName& resource) const;

  // The resources of the lease that this process runs in; none where it runs in none.
  std::vector<ResourceName> surrounding() const;

  // Whether leases can be taken here, or why not, with the remedy.
  Result<void> check() const;

  // Takes a whole set at once or nothing. choose is called with the occupancy, while no other process can take or
  // release through this table, and returns the set it wants or why it cannot have one (a refusal may become possible
  // later; bad input cannot). candidates are all resources it could accept: nobody who comes later gets them first.
  //   wait absent: one try.   wait present: first come, first served, until the span is over or stop is asked for.
  // on_waiting is called once, with the refusal, when the waiting begins.
  using Choose = std::function<Result<std::vector<ResourceName>>(const Occupancy&)>;
  Result<Lease> acquire(std::span<const ResourceName> candidates, const Choose& choose, const Purpose& purpose,
                        std::optional<std::chrono::milliseconds> wait = std::nullopt,
                        const std::function<void(const Error&)>& on_waiting = {}, std::stop_token stop = {});

  // The given set, as it is.
  Result<Lease> acquire(std::span<const ResourceName> resources, const Purpose& purpose,
                        std::optional<std::chrono::milliseconds> wait = std::nullopt);

 private:
  struct Request;
  Result<Lease> try_once(const Request& request, std::optional<std::uint64_t> place) const;
  Result<Lease> wait_for_turn(const Request& request, Ticket ticket, Error refusal, std::chrono::milliseconds wait,
                              const std::stop_token& stop) const;

  std::filesystem::path folder_;
  std::optional<std::string> inherited_;  // MUSTER_LEASE, unverified
};

}  // namespace muster::lease

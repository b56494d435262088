#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "lease/gate.hpp"
#include "lease/held_name.hpp"
#include "lease/kernel_locks.hpp"
#include "lease/lease.hpp"
#include "lease/lease_folder.hpp"
#include "lease/lock_file.hpp"
#include "lease/nesting.hpp"
#include "lease/record.hpp"
#include "lease/release_watch.hpp"
#include "lease/system_failure.hpp"
#include "lease/waiting_line.hpp"

namespace muster::lease {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* busy_remedy = "wait for it with --wait 10m, or use it beside its holder with --share";

// Lookers lock a file for an instant. What stays locked longer is held by someone who did not come through the gate.
constexpr milliseconds looker_patience(100);
// How often a waiter looks even if nothing wakes it: what it waits for may be no lease (memory that comes back).
constexpr milliseconds longest_pause(150);

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

Error busy(const ResourceName& resource, const Holder& holder) {
  return {Error::Kind::refused, fmt::format("{} is held by {}", resource, describe(holder)), busy_remedy};
}

Error behind(const ResourceName& resource, const Holder& waiter) {
  return {Error::Kind::refused, fmt::format("{} goes first to {}, who waits for it", resource, describe(waiter)),
          "wait in line with --wait 10m, or use other GPUs"};
}

// Note [A lock file that is deleted]
Holder holder_by_deleted_file() {
  Holder holder;
  holder.remark = ", whose lock file was deleted while it was held";
  return holder;
}

constexpr const char* by_shared_lock = ", which has a shared lock on its file and no lease";

// A shared lock that stays, unlike that of a looker: nobody can take the lease beside it.
std::optional<Holder> find_sharer(const FileDescriptor& file, const KernelLocks& locks) {
  constexpr milliseconds between(20);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return std::nullopt;
  const auto first = locks.sharer(status);
  if (!first) return std::nullopt;
  for (milliseconds waited(0); waited < looker_patience; waited += between) {
    std::this_thread::sleep_for(between);
    if (KernelLocks::read().sharer(status) != first) return std::nullopt;
  }
  Holder holder = holder_from_process(*first);
  holder.remark = by_shared_lock;
  return holder;
}

// Nobody takes the lock in this moment: the gate is closed, or the kernel's list was asked before.
std::optional<Holder> find_holder(const LeaseFolder& folder, const std::string& name, const FileDescriptor& file,
                                  const KernelLocks& locks) {
  if (file && is_locked(file)) return holder_of_locked(file, locks);
  if (is_name_taken(name_in_kernel(folder.path, name))) return holder_by_deleted_file();
  return file ? find_sharer(file, locks) : std::nullopt;
}

// Inside the gate: nobody else takes a lock while we look. A file that cannot be opened is not known to be held; taking
// it says what is wrong with it.
std::optional<Holder> look_inside_gate(const LeaseFolder& folder, const std::string& name,
                                       std::optional<KernelLocks>& locks) {
  const FileDescriptor file = open_to_look(folder.locks, name);
  if (!locks) locks = KernelLocks::read();
  return find_holder(folder, name, file, *locks);
}

}  // namespace

struct LeaseTable::Request {
  const LeaseFolder& folder;
  const Nesting& nesting;
  const std::vector<ResourceName>& candidates;
  const Choose& choose;
  const Purpose& purpose;

  // Why a chosen set is refused, regardless of who holds what.
  Result<void> check(const std::vector<ResourceName>& chosen) const;
};

Result<void> LeaseTable::Request::check(const std::vector<ResourceName>& chosen) const {
  for (auto resource = chosen.begin(); resource != chosen.end(); ++resource) {
    if (std::find(chosen.begin(), resource, *resource) != resource)
      return Error{Error::Kind::bad_input, fmt::format("{} is asked for twice", *resource), "name each GPU once"};
    if (std::ranges::find(candidates, *resource) == candidates.end())
      throw std::logic_error(fmt::format("{} was chosen, but is not a candidate", *resource));
    if (!nesting.allows(*resource))
      return Error{Error::Kind::bad_input,
                   fmt::format("{} is outside the lease this command runs in, which has {}", *resource,
                               fmt::join(nesting.resources, ", ")),
                   fmt::format("use those, or start the command without {}", nesting_variable)};
  }
  return {};
}

LeaseTable::LeaseTable(std::filesystem::path folder)
    : folder_(std::move(folder)), inherited_(environment(nesting_variable)) {}

std::filesystem::path LeaseTable::default_folder() {
  if (const auto chosen = environment("MUSTER_LEASE_DIR")) return *chosen;
  struct stat status {};
  const bool open_to_all =
      ::stat("/run/lock", &status) == 0 && S_ISDIR(status.st_mode) && (status.st_mode & S_IRWXO) == S_IRWXO;
  return open_to_all ? "/run/lock/muster" : "/tmp/muster-leases";
}

std::optional<Holder> LeaseTable::holder_of(const ResourceName& resource) const {
  if (!check_resource_name(resource)) return std::nullopt;
  const auto folder = LeaseFolder::open_existing(folder_);
  if (!folder && !is_name_taken(name_in_kernel(folder_, lock_file_name(resource, 0)))) return std::nullopt;
  if (!folder) return holder_by_deleted_file();
  const int depth = find_nesting(*folder, inherited_).depth_of(resource);
  const std::string name = lock_file_name(resource, depth);
  const FileDescriptor file = open_to_look(folder->locks, name);
  if (!file && errno != ENOENT) return Holder{};
  const KernelLocks locks = KernelLocks::read();
  struct stat status {};
  if (file && ::fstat(file.number(), &status) == 0 && locks.taker(status)) return holder_of_locked(file, locks);
  // Not in the kernel's list proves nothing. Inside the gate a look cannot meet one who is just taking it.
  const auto gate = Gate::enter_to_look(*folder, looker_patience);
  return find_holder(*folder, name, file, locks);
}

std::vector<ResourceName> LeaseTable::surrounding() const {
  if (!inherited_) return {};
  const auto folder = LeaseFolder::open_existing(folder_);
  return folder ? find_nesting(*folder, inherited_).resources : std::vector<ResourceName>{};
}

Result<void> LeaseTable::check() const {
  const auto folder = LeaseFolder::prepare(folder_);
  if (!folder) return folder.error();
  if (::faccessat(folder->locks.number(), ".", W_OK | X_OK, AT_EACCESS) != 0)
    return system_failure("create files in", folder->path, errno);
  const auto gate = Gate::enter(*folder);
  if (!gate) return gate.error();
  return {};
}

// Inside the gate. All locks or none.
Result<Lease> LeaseTable::try_once(const Request& request, std::optional<std::uint64_t> place) const {
  const LeaseFolder& folder = request.folder;
  const int depth = request.nesting.depth;
  LineBefore line(folder, depth, place);
  std::optional<KernelLocks> kernel_locks;
  Occupancy occupancy;
  occupancy.holder_of = [&](const ResourceName& resource) {
    return look_inside_gate(folder, lock_file_name(resource, request.nesting.depth_of(resource)), kernel_locks);
  };
  occupancy.earlier_waiter_for = [&](const ResourceName& resource) { return line.first_that_could_use(resource); };

  auto chosen = request.choose(occupancy);
  if (!chosen) return chosen.error();
  if (auto checked = request.check(*chosen); !checked) return checked.error();
  for (const ResourceName& resource : *chosen)
    if (const auto waiter = occupancy.earlier_waiter_for(resource)) return behind(resource, *waiter);

  Lease lease;
  lease.depth_ = depth;
  lease.resources_ = std::move(*chosen);
  lease.locks_.resize(lease.resources_.size());
  lease.names_.resize(lease.resources_.size());
  // Everyone locks in one order. A set given up half way is unlocked by hand: a child that another thread forks in
  // this moment must not keep it.
  std::vector<std::size_t> order(lease.resources_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t at) -> const ResourceName& { return lease.resources_[at]; });
  const auto give_up = [&](Error error) {
    for (const FileDescriptor& lock : lease.locks_)
      if (lock) unlock(lock);
    return error;
  };
  for (const std::size_t at : order) {
    const std::string name = lock_file_name(lease.resources_[at], depth);
    // Before the lock, so that a process that dies gives it up before the lock, whose end wakes those who wait.
    HeldName held = take_name(name_in_kernel(folder.path, name), looker_patience);
    if (held.is_taken) {
      kernel_locks.reset();
      return give_up(busy(lease.resources_[at], look_inside_gate(folder, name, kernel_locks).value_or(Holder{})));
    }
    lease.names_[at] = std::move(held.socket);
    auto lock = take_lock({folder.locks, folder.path}, name, looker_patience);
    if (!lock) return give_up(lock.error());
    if (!*lock) {
      kernel_locks.reset();
      return give_up(busy(lease.resources_[at], look_inside_gate(folder, name, kernel_locks).value_or(Holder{})));
    }
    lease.locks_[at] = std::move(**lock);
  }

  const Record record = describe_this_process(request.purpose);
  lease.id_ = record.id;
  lease.record_ = to_line(record);
  for (const FileDescriptor& lock : lease.locks_) {
    const auto previous = read_record(lock);
    lease.previous_.push_back(previous ? std::optional(previous->holder) : std::nullopt);
    // What the last holder owes stays written down until this one has measured for itself.
    Record own = record;
    if (previous) own.holder.memory_before = previous->holder.memory_before;
    write_record(lock, to_line(own));
  }
  return lease;
}

Result<Lease> LeaseTable::wait_for_turn(const Request& request, Ticket taken, Error refusal, milliseconds wait,
                                        const std::stop_token& stop) const {
  std::optional<Ticket> ticket(std::move(taken));
  const auto began = Clock::now();
  const auto end = began + std::min<milliseconds>(wait, std::chrono::hours(24 * 365));
  ReleaseWatch watch(request.folder);
  Outlook outlook(request.folder, *ticket, request.candidates);
  // The kernel tells of a close just before it drops the lock: hence the quick second looks.
  constexpr milliseconds first_pause(1);
  milliseconds pause = first_pause;
  while (true) {
    const bool last = Clock::now() >= end || stop.stop_requested();
    if (last || !outlook.is_hopeless()) {
      const auto gate = Gate::enter(request.folder);
      if (!gate) return gate.error();
      auto lease = try_once(request, ticket->sequence());
      if (lease) {
        ticket.reset();  // inside the gate, so that who comes next finds the line as it is
        return lease;
      }
      if (lease.error().kind != Error::Kind::refused) return lease;
      refusal = lease.error();
    }
    const auto now = Clock::now();
    if (last) {
      refusal.what += fmt::format(" (waited {})", to_string(std::chrono::duration_cast<milliseconds>(now - began)));
      return refusal;
    }
    // What happened before we looked out for it would be missed: one more try.
    if (watch.look_out_for(outlook.blockers())) continue;
    const auto left = std::chrono::ceil<milliseconds>(end - now);
    const bool woken = watch.wait(std::clamp(left, milliseconds(0), pause));
    pause = woken ? first_pause : std::min(pause * 4, longest_pause);
  }
}

Result<Lease> LeaseTable::acquire(std::span<const ResourceName> candidates, const Choose& choose,
                                  const Purpose& purpose, std::optional<milliseconds> wait,
                                  const std::function<void(const Error&)>& on_waiting, std::stop_token stop) {
  const std::vector<ResourceName> names(candidates.begin(), candidates.end());
  for (const ResourceName& name : names)
    if (auto checked = check_resource_name(name); !checked) return checked.error();
  const auto folder = LeaseFolder::prepare(folder_);
  if (!folder) return folder.error();
  const Nesting nesting = find_nesting(*folder, inherited_);
  const Request request{*folder, nesting, names, choose, purpose};
  std::optional<Ticket> ticket;
  Error refusal;
  {
    const auto gate = Gate::enter(*folder);
    if (!gate) return gate.error();
    auto lease = try_once(request, std::nullopt);
    const bool may_wait = wait && *wait > milliseconds(0);
    if (lease || !may_wait || lease.error().kind != Error::Kind::refused) return lease;
    refusal = lease.error();
    auto taken = Ticket::take(*folder, nesting.depth, names, purpose);
    if (!taken) return taken.error();
    ticket.emplace(std::move(*taken));
  }
  if (on_waiting) on_waiting(refusal);
  return wait_for_turn(request, std::move(*ticket), std::move(refusal), *wait, stop);
}

Result<Lease> LeaseTable::acquire(std::span<const ResourceName> resources, const Purpose& purpose,
                                  std::optional<milliseconds> wait) {
  const auto all_or_nothing = [&](const Occupancy& occupancy) -> Result<std::vector<ResourceName>> {
    std::vector<std::string> held;
    for (const ResourceName& resource : resources)
      if (const auto holder = occupancy.holder_of(resource)) held.push_back(busy(resource, *holder).what);
    if (!held.empty()) return Error{Error::Kind::refused, join(held, "; "), busy_remedy};
    return std::vector<ResourceName>(resources.begin(), resources.end());
  };
  return acquire(resources, all_or_nothing, purpose, wait);
}

}  // namespace muster::lease

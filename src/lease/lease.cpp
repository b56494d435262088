#include "lease/lease.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <stdexcept>

#include "lease/nesting.hpp"
#include "lease/printable_text.hpp"
#include "lease/record.hpp"

namespace muster::lease {

// Note [Nested leases]
// A command that holds a lease starts others below it: a sweep its trials, a script a training. They must neither be
// refused by the lease around them nor ignore it. So the holder passes on
// MUSTER_LEASE=<depth>:<id>:<resource>,<resource>, and a table in a process that has it takes its locks one level
// deeper (GPU-1+1.lock), among its siblings only, and only on the resources named. The variable is believed when each
// of those is locked one level up by a lease with that id: one that has outlived its lease counts for nothing.
std::pair<std::string, std::string> Lease::pass_on_exec() {
  for (const int descriptor : descriptors())
    if (const int flags = ::fcntl(descriptor, F_GETFD); flags >= 0)
      ::fcntl(descriptor, F_SETFD, flags & ~FD_CLOEXEC);
  return {nesting_variable, to_variable(depth_ + 1, id_, resources_)};
}

std::vector<int> Lease::descriptors() const {
  std::vector<int> numbers;
  for (const FileDescriptor& lock : locks_) numbers.push_back(lock.number());
  for (const FileDescriptor& name : names_)
    if (name) numbers.push_back(name.number());
  return numbers;
}

void Lease::record_memory_before(const ResourceName& resource, ByteCount used) {
  const auto found = std::ranges::find(resources_, resource);
  if (found == resources_.end()) throw std::invalid_argument(fmt::format("{} is not in this lease", resource));
  auto record = parse_record(record_);
  if (!record) throw std::logic_error("a lease cannot read its own record");
  record->holder.memory_before = used;
  write_record(locks_[static_cast<std::size_t>(found - resources_.begin())], to_line(*record));
}

void Lease::settle() {
  Record left;
  left.id = id_;
  for (const FileDescriptor& lock : locks_) write_record(lock, to_line(left));
}

std::string describe(const Holder& holder) {
  constexpr std::size_t most_of_command = 60;
  std::string text = holder.pid ? fmt::format("pid {}", *holder.pid) : "an unknown process";
  std::vector<std::string> details;
  if (holder.user) details.push_back(*holder.user);
  if (holder.command) details.push_back(printable(*holder.command, most_of_command));
  if (!details.empty()) text += fmt::format(" ({})", fmt::join(details, ", "));
  if (holder.since) {
    const std::time_t moment = *holder.since;
    std::tm local{};
    std::array<char, 32> when{};
    if (::localtime_r(&moment, &local) != nullptr &&
        std::strftime(when.data(), when.size(), "%Y-%m-%d %H:%M:%S", &local) > 0)
      text += fmt::format(" since {}", when.data());
  }
  return text + holder.remark;
}

}  // namespace muster::lease

// Who waits, in the order of arrival. A ticket is a locked file: one whose lock is free belonged to a waiter that died.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "lease/lease.hpp"
#include "lease/lease_folder.hpp"

namespace muster::lease {

struct Waiter {
  Holder who;
  std::optional<std::vector<ResourceName>> candidates;  // absent: could not be written or read; it may want anything

  bool could_use(const ResourceName& resource) const;
};

// A place in the line, kept until destroyed or until the process ends. Must not outlive the folder it was taken in.
class Ticket {
 public:
  // At the end of the line. Only inside the gate.
  static Result<Ticket> take(const LeaseFolder& folder, int depth, const std::vector<ResourceName>& candidates,
                             const Purpose& purpose);

  Ticket(Ticket&& other) noexcept = default;
  Ticket& operator=(Ticket&&) = delete;
  ~Ticket();

  std::uint64_t sequence() const { return sequence_; }
  int depth() const { return depth_; }

 private:
  Ticket() = default;
  FileDescriptor file_;
  int waiting_folder_ = -1;  // borrowed
  std::string name_;
  std::uint64_t sequence_ = 0;
  int depth_ = 0;
  pid_t owner_ = 0;  // a forked copy gives nothing up
};

// The living waiters before a place (all of them for one without a place); forgets the dead. Only inside the gate,
// where the line does not change. Looks at no more tickets than a question needs: a line may be long.
class LineBefore {
 public:
  LineBefore(const LeaseFolder& folder, int depth, std::optional<std::uint64_t> place);
  std::optional<Holder> first_that_could_use(const ResourceName& resource);

 private:
  const LeaseFolder& folder_;
  std::vector<std::string> unread_;  // names of tickets, the last one first
  std::vector<Waiter> waiters_;
};

// Finds out cheaply, outside the gate, that trying is useless: living waiters before us could use all we could.
class Outlook {
 public:
  Outlook(const LeaseFolder& folder, const Ticket& ticket, std::vector<ResourceName> candidates);
  bool is_hopeless();
  // Living tickets that together cover all candidates, when last looked at; none when there is hope.
  const std::vector<std::string>& blockers() const { return blockers_; }

 private:
  const LeaseFolder& folder_;
  const Ticket& ticket_;
  std::vector<ResourceName> candidates_;
  std::vector<std::string> blockers_;
};

}  // namespace muster::lease

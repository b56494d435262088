#include "lease/gate.hpp"

#include <fmt/format.h>

#include "base/duration.hpp"
#include "lease/lock_file.hpp"
#include "lease/record.hpp"

namespace muster::lease {
namespace {

constexpr const char* lock_name = "lock";

Error closed(const LeaseFolder& folder, std::chrono::milliseconds patience) {
  const FileDescriptor lock = open_to_look(folder.gate, lock_name);
  const Holder inside = lock ? holder_of_locked(lock, KernelLocks::read()) : Holder{};
  return {Error::Kind::failed,
          fmt::format("the lease table in {} has been in use for {} by {}", folder.path.string(), to_string(patience),
                      inside.pid ? describe(inside) : "a process that cannot be named"),
          inside.pid ? fmt::format("look whether process {0} is stopped (kill -CONT {0}), or end it", *inside.pid)
                     : fmt::format("find it: fuser -v {}", (folder.path / "gate" / lock_name).string())};
}

}  // namespace

Result<Gate> Gate::enter(const LeaseFolder& folder, std::chrono::milliseconds patience) {
  auto lock = take_lock({folder.gate, folder.path / "gate"}, lock_name, patience);
  if (!lock) return lock.error();
  if (!*lock) return closed(folder, patience);
  return Gate(std::move(**lock));
}

std::optional<Gate> Gate::enter_to_look(const LeaseFolder& folder, std::chrono::milliseconds patience) {
  if (!folder.gate) return std::nullopt;
  FileDescriptor lock = open_to_look(folder.gate, lock_name);
  if (!lock) return std::nullopt;
  const auto locked = lock_within(lock, patience, folder.path / "gate" / lock_name);
  if (!locked || !*locked) return std::nullopt;
  return Gate(std::move(lock));
}

Gate::~Gate() {
  if (lock_) unlock(lock_);
}

}  // namespace muster::lease

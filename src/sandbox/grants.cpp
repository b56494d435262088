// Which sandbox this kernel grants, found by trying.
#include <fmt/format.h>

#include "sandbox/confinement.hpp"
#include "sandbox/sandbox.hpp"
#include "system/files.hpp"

namespace muster::sandbox {
namespace {

// What each of these settings does is said by the kernel's documentation of user namespaces.
std::string how_to_grant() {
  const auto is = [](const char* file, std::string_view value) {
    const auto text = read_file(file);
    return text && text->starts_with(value);
  };
  if (is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
    return "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
  if (is("/proc/sys/kernel/unprivileged_userns_clone", "0")) return "sudo sysctl -w kernel.unprivileged_userns_clone=1";
  if (is("/proc/sys/user/max_user_namespaces", "0\n")) return "sudo sysctl -w user.max_user_namespaces=10000";
  return "in a container: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined; elsewhere "
         "Linux 5.14 or newer is needed";
}

}  // namespace

std::string_view to_string(Isolation isolation) {
  return isolation == Isolation::namespaces ? "namespaces" : "Landlock";
}

Result<Sandbox> Sandbox::open(Isolation isolation) {
  const Sandbox sandbox(isolation);
  if (isolation == Isolation::landlock && landlock_abi() == 0)
    return Error{Error::Kind::refused, "this kernel has no Landlock, or it is switched off",
                 "start it with lsm=landlock,... among its parameters (Linux 5.13 or newer)"};
  Order trial;
  trial.command = {"/bin/sh", "-c", ":"};
  const auto outcome = sandbox.run(std::move(trial), {});
  const std::string remedy = how_to_grant();
  if (!outcome) return Error{Error::Kind::refused, outcome.error().what, remedy};
  if (outcome->end.exit_code != 0)
    return Error{Error::Kind::refused,
                 fmt::format("a shell in the sandbox did nothing, and ended with {}: {}",
                             describe(outcome->end, Limits{}.wall_time), outcome->errors),
                 remedy};
  return sandbox;
}

Result<Sandbox> Sandbox::open() {
  auto strong = open(Isolation::namespaces);
  if (strong) return strong;
  auto fallback = open(Isolation::landlock);
  if (fallback) return fallback;
  return Error{Error::Kind::refused,
               fmt::format("programs that nobody trusts cannot be confined here: {}; {}", strong.error().what,
                           fallback.error().what),
               strong.error().remedy};
}

Grants probe() {
  const auto of = [](Isolation isolation) -> Result<void> {
    auto sandbox = Sandbox::open(isolation);
    if (sandbox) return {};
    return sandbox.error();
  };
  return {of(Isolation::namespaces), of(Isolation::landlock)};
}

}  // namespace muster::sandbox

// Confinement of files where no namespaces are granted. <linux/landlock.h> may be older than the kernel, so what came
// later is named here.
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "sandbox/confinement.hpp"
#include "system/file_descriptor.hpp"

namespace muster::sandbox {
namespace {

constexpr std::uint64_t landlock_truncate = 1ULL << 14;      // version 3
constexpr std::uint64_t landlock_device_ioctl = 1ULL << 15;  // version 5

std::uint64_t every_right(int version) {
  std::uint64_t rights = LANDLOCK_ACCESS_FS_MAKE_SYM * 2 - 1;  // all of version 1
  if (version >= 2) rights |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) rights |= landlock_truncate;
  if (version >= 5) rights |= landlock_device_ioctl;
  return rights;
}

std::uint64_t rights_to(const VisiblePath& visible, int version) {
  if (visible.is_device)
    return LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | (version >= 3 ? landlock_truncate : 0);
  const std::uint64_t file = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE;
  return visible.is_folder ? file | LANDLOCK_ACCESS_FS_READ_DIR : file;
}

}  // namespace

int landlock_abi() {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version > 0 ? static_cast<int>(version) : 0;
}

int restrict_files(int version, std::span<const VisiblePath> visible) {
  const landlock_ruleset_attr all{every_right(version)};
  const FileDescriptor rules(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0)));
  if (!rules) return errno;
  for (const VisiblePath& path : visible) {
    const FileDescriptor place(::open(path.path, O_PATH | O_CLOEXEC));
    if (!place) continue;  // what this user may not open, it will not see
    const landlock_path_beneath_attr rule{rights_to(path, version), place.number()};
    if (::syscall(SYS_landlock_add_rule, rules.number(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) return errno;
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return ::syscall(SYS_landlock_restrict_self, rules.number(), 0) != 0 ? errno : 0;
}

}  // namespace muster::sandbox

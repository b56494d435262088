#include "lease/system_failure.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace muster::lease {
namespace {

std::string remedy(const std::filesystem::path& path, int reason) {
  constexpr std::string_view elsewhere = "set MUSTER_LEASE_DIR to a folder all users of this machine can write";
  switch (reason) {
    case EACCES:
    case EPERM:
      return fmt::format("{}, or let the owner open it: chmod 1777 on the folder, 666 on the files in it", elsewhere);
    case ENOSPC:
    case EDQUOT:
      return fmt::format("free space or inodes on that file system (df {0}; df -i {0}), or {1}",
                         path.parent_path().string(), elsewhere);
    case ENOENT:
      return fmt::format("mkdir -p {}, or {}", path.parent_path().string(), elsewhere);
    case ELOOP:
      return fmt::format("it is a symbolic link, and links are not followed here: remove it, or {}", elsewhere);
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENOLCK:
    case EOPNOTSUPP:
    case EINVAL:
      return fmt::format("{}, on a file system with locks (not a network one)", elsewhere);
    default:
      return std::string(elsewhere);
  }
}

}  // namespace

Error system_failure(std::string_view action, const std::filesystem::path& path, int reason) {
  return {Error::Kind::failed,
          fmt::format("cannot {} {}: {}", action, path.string(), std::generic_category().message(reason)),
          remedy(path, reason)};
}

}  // namespace muster::lease

// The file system of a program in namespaces: an empty one in memory, with parts of the host's shown in it, none of which
// can be written.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "sandbox/confinement.hpp"
#include "system/file_descriptor.hpp"

namespace muster::sandbox {
namespace {

constexpr unsigned plain_mount = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr unsigned device_mount = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;

struct MountOption {
  const char* key;
  const char* value;
};

// A file system of its own kind, not yet attached anywhere. Empty, with the reason in errno, where it is not granted.
FileDescriptor new_mount(const char* type, std::span<const MountOption> options, unsigned attributes) {
  const FileDescriptor context(::fsopen(type, FSOPEN_CLOEXEC));
  if (!context) return {};
  for (const MountOption& option : options)
    if (::fsconfig(context.number(), FSCONFIG_SET_STRING, option.key, option.value, 0) != 0) return {};
  if (::fsconfig(context.number(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return {};
  return FileDescriptor(::fsmount(context.number(), FSMOUNT_CLOEXEC, attributes));
}

bool attach(int mount, const char* path) {
  return ::move_mount(mount, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

// Folders above the path, as far as they are missing.
bool make_parents(const char* path) {
  std::array<char, PATH_MAX> part{};
  for (std::size_t at = 1; path[at] != '\0' && at < part.size(); ++at) {
    if (path[at] != '/') continue;
    std::memcpy(part.data(), path, at);
    part[at] = '\0';
    if (::mkdir(part.data(), 0755) != 0 && errno != EEXIST) return false;
  }
  return true;
}

bool make_place(const VisiblePath& visible) {
  if (!make_parents(visible.path)) return false;
  if (visible.is_folder) return ::mkdir(visible.path, 0755) == 0 || errno == EEXIST;
  return bool(FileDescriptor(::open(visible.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644)));
}

// The new root covers a folder of the old one, which is then taken away whole.
bool enter(const FileDescriptor& root) {
  return attach(root.number(), "/usr") && ::fchdir(root.number()) == 0 && ::syscall(SYS_pivot_root, ".", ".") == 0 &&
         ::umount2(".", MNT_DETACH) == 0 && ::chdir("/") == 0;
}

bool make_read_only(int mount) {
  mount_attr change{};
  change.attr_set = MOUNT_ATTR_RDONLY;
  return ::mount_setattr(mount, "", AT_EMPTY_PATH, &change, sizeof change) == 0;
}

}  // namespace

int open_visible(std::span<const VisiblePath> visible, std::span<int> trees) {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return errno;
  for (std::size_t i = 0; i < visible.size(); ++i) {
    trees[i] = ::open_tree(AT_FDCWD, visible[i].path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (trees[i] < 0) return errno;
    mount_attr change{};
    change.attr_set = visible[i].is_device ? device_mount : plain_mount | MOUNT_ATTR_RDONLY;
    if (::mount_setattr(trees[i], "", AT_EMPTY_PATH | AT_RECURSIVE, &change, sizeof change) != 0) return errno;
  }
  return 0;
}

int make_root(const Confinement& confinement, std::span<const int> trees) {
  const FileDescriptor root = new_mount(
      "tmpfs", std::array{MountOption{"size", "1m"}, MountOption{"nr_inodes", "1k"}, MountOption{"mode", "755"}},
      plain_mount);
  const FileDescriptor files = new_mount("tmpfs",
                                         std::array{MountOption{"size", confinement.files_size},
                                                    MountOption{"nr_inodes", "4k"}, MountOption{"mode", "700"}},
                                         plain_mount);
  if (!root || !files) return errno;
  // Only the processes in here. Containers that cover parts of /proc grant none; the program then has none.
  const FileDescriptor processes = new_mount("proc", std::array{MountOption{"subset", "pid"}},
                                             plain_mount | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY);
  if (!enter(root)) return errno;
  if (::mkdir("/tmp", 0755) != 0 || !attach(files.number(), "/tmp")) return errno;
  for (std::size_t i = 0; i < trees.size(); ++i)
    if (!make_place(confinement.visible[i]) || !attach(trees[i], confinement.visible[i].path)) return errno;
  for (const VisibleLink& link : confinement.links)
    if (!make_parents(link.path) || (::symlink(link.target, link.path) != 0 && errno != EEXIST)) return errno;
  if (::mkdir("/proc", 0555) != 0) return errno;
  if (processes && !attach(processes.number(), "/proc")) return errno;
  return make_read_only(root.number()) ? 0 : errno;
}

}  // namespace muster::sandbox

#include "lease/lease_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

#include "lease/printable_text.hpp"
#include "lease/system_failure.hpp"

namespace muster::lease {
namespace {

constexpr mode_t open_to_all = 01777;
constexpr int open_folder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

Error not_a_folder(const std::filesystem::path& path, bool link) {
  return {Error::Kind::failed,
          fmt::format("the lease folder {} is {}, not a folder", path.string(), link ? "a symbolic link" : "a file"),
          "remove it, or set MUSTER_LEASE_DIR to a folder all users of this machine can write"};
}

// Another process may be between making the folder and opening it to all: a few looks tell that from a lasting refusal.
Result<FileDescriptor> open_or_make(int above, const std::string& name, const std::filesystem::path& path) {
  constexpr int tries = 20;
  int reason = 0;
  for (int attempt = 0; attempt < tries; ++attempt) {
    FileDescriptor folder(::openat(above, name.c_str(), open_folder));
    if (folder) return folder;
    reason = errno;
    if (reason == ENOTDIR || reason == ELOOP) {
      struct stat status {};
      if (::fstatat(above, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(status.st_mode))
        return not_a_folder(path, S_ISLNK(status.st_mode));
      return system_failure("open", path, reason);
    }
    if (reason == ENOENT) {
      if (::mkdirat(above, name.c_str(), 0777) == 0) {
        FileDescriptor made(::openat(above, name.c_str(), open_folder));
        // The process's umask has narrowed the mode.
        if (made && ::fchmod(made.number(), open_to_all) == 0) return made;
        return system_failure("open", path, errno);
      }
      if (errno != EEXIST) return system_failure("create", path, errno);
      continue;
    }
    if (reason != EACCES && reason != EINTR) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return system_failure("open", path, reason);
}

// A maker that was killed half way has left it closed to others; as its owner we finish the work.
void finish(const FileDescriptor& folder) {
  struct stat status {};
  if (::fstat(folder.number(), &status) != 0) return;
  if (status.st_uid == ::geteuid() && (status.st_mode & 07777) != open_to_all) ::fchmod(folder.number(), open_to_all);
}

std::filesystem::path without_trailing_slash(const std::filesystem::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

Result<LeaseFolder> LeaseFolder::prepare(const std::filesystem::path& path) {
  LeaseFolder folder;
  folder.path = without_trailing_slash(path);
  auto locks = open_or_make(AT_FDCWD, folder.path.string(), folder.path);
  if (!locks) return locks.error();
  folder.locks = std::move(*locks);
  for (const auto& [name, place] : {std::pair{"gate", &folder.gate}, std::pair{"waiting", &folder.waiting}}) {
    auto below = open_or_make(folder.locks.number(), name, folder.path / name);
    if (!below) return below.error();
    *place = std::move(*below);
    finish(*place);
  }
  return folder;
}

std::optional<LeaseFolder> LeaseFolder::open_existing(const std::filesystem::path& path) {
  LeaseFolder folder;
  folder.path = without_trailing_slash(path);
  folder.locks = FileDescriptor(::open(folder.path.c_str(), open_folder));
  if (!folder.locks) return std::nullopt;
  folder.gate = FileDescriptor(::openat(folder.locks.number(), "gate", open_folder));
  folder.waiting = FileDescriptor(::openat(folder.locks.number(), "waiting", open_folder));
  return folder;
}

Result<void> check_resource_name(const std::string& resource) {
  constexpr std::size_t longest = 200;
  const bool known = std::ranges::all_of(resource, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("._:-/").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (known && !resource.empty() && resource.size() <= longest) return {};
  return Error{Error::Kind::bad_input,
               fmt::format("\"{}\" cannot be leased by that name", printable(resource, longest)),
               "use a GPU or MIG UUID: letters, digits and . _ : - / only, 200 at most"};
}

std::string lock_file_name(const std::string& resource, int depth) {
  std::string name = resource;
  std::ranges::replace(name, '/', '_');  // the old MIG form: MIG-GPU-<uuid>/1/0
  return depth == 0 ? name + ".lock" : fmt::format("{}+{}.lock", name, depth);
}

}  // namespace muster::lease

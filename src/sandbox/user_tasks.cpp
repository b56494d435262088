#include "sandbox/user_tasks.hpp"

#include <sys/stat.h>

namespace muster::sandbox {

std::uint64_t tasks_of(uid_t user, const std::filesystem::path& proc) {
  std::uint64_t count = 0;
  std::error_code gone;
  for (const auto& process : std::filesystem::directory_iterator(proc, gone)) {
    struct stat folder = {}, tasks = {};
    if (::stat(process.path().c_str(), &folder) != 0 || folder.st_uid != user) continue;
    if (::stat((process.path() / "task").c_str(), &tasks) == 0 && tasks.st_nlink > 2)
      count += tasks.st_nlink - 2;  // a folder for each
  }
  return count;
}

}  // namespace muster::sandbox

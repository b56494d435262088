#include "system/private_folder.hpp"

#include <sys/stat.h>

#include <cerrno>

namespace muster {

std::error_code make_private_folder(const std::filesystem::path& path) {
  std::error_code failure;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failure);
  if (failure || ::mkdir(path.c_str(), 0700) == 0) return failure;
  const int reason = errno;
  if (reason == EEXIST && std::filesystem::is_directory(path, failure)) return {};
  return {reason, std::generic_category()};
}

}  // namespace muster

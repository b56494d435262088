#include "system/shortage.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "system/file_descriptor.hpp"

namespace muster {

bool is_shortage(int reason) {
  constexpr int shortages[] = {ENOSPC, EDQUOT, EAGAIN, EMFILE, ENFILE, ENOMEM};
  return std::ranges::find(shortages, reason) != std::end(shortages);
}

bool has_room(const std::filesystem::path& folder, std::size_t bytes) {
  const FileDescriptor file(::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));  // without a name
  if (!file) return !is_shortage(errno);
  return !is_shortage(::posix_fallocate(file.number(), 0, static_cast<off_t>(bytes)));
}

}  // namespace muster

#include "system/part_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "system/hmac.hpp"

namespace muster {
namespace {

constexpr int most_attempts = 16;

FileDescriptor create(const std::filesystem::path& path) {
  return FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
}

}  // namespace

PartFile create_part_file(const std::filesystem::path& place) {
  PartFile part{fmt::format("{}.part-{}", place.string(), ::getpid()), {}};
  part.file = create(part.path);
  for (int attempt = 0; !part.file && errno == EEXIST && attempt < most_attempts; ++attempt) {
    part.path = fmt::format("{}.part-{}-{}", place.string(), ::getpid(), random_hexadecimal(4));
    part.file = create(part.path);
  }
  return part;
}

}  // namespace muster

#include "system/replace_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "system/file_descriptor.hpp"
#include "system/files.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;

Error cannot(std::string_view verb, const fs::path& place, const std::string& reason) {
  return {Error::Kind::failed, fmt::format("cannot {} {}: {}", verb, place.string(), reason),
          "check permissions of the folder above it"};
}

fs::path hidden_name(const fs::path& place) {
  return place.parent_path() / fmt::format(".{}.removed", place.filename().string());
}

bool exchange(const fs::path& one, const fs::path& other) {
  return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

Result<void> flush_folder(const fs::path& folder) {
  const FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file || ::fsync(file.number()) != 0) return cannot("flush", folder, system_reason());
  return {};
}

Result<void> remove_folder(const fs::path& place) {
  std::error_code failure;
  const fs::path hidden = hidden_name(place);
  fs::remove_all(hidden, failure);  // what a killed removal left
  if (::rename(place.c_str(), hidden.c_str()) != 0) return cannot("remove", place, system_reason());
  fs::remove_all(hidden, failure);
  if (failure) return cannot("remove", hidden, failure.message());
  return {};
}

Result<void> replace_folder(const fs::path& finished, const fs::path& place) {
  std::error_code failure;
  if (exchange(finished, place)) {
    if (auto flushed = flush_folder(place.parent_path()); !flushed) return flushed;
    fs::remove_all(finished, failure);  // which is the old one now
    if (failure) return cannot("remove", finished, failure.message());
    return {};
  }
  if (fs::symlink_status(place, failure).type() != fs::file_type::not_found)
    if (auto removed = remove_folder(place); !removed) return removed;
  if (::rename(finished.c_str(), place.c_str()) != 0) return cannot("make", place, system_reason());
  return flush_folder(place.parent_path());
}

}  // namespace muster

#include "launch/run_secret.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "system/files.hpp"
#include "system/hmac.hpp"
#include "system/regular_file.hpp"
#include "system/state_home.hpp"
#include "base/text.hpp"

namespace muster::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t secret_bytes = 32;       // of those that are made here
constexpr std::size_t fewest_characters = 16;  // of any
constexpr std::size_t longest_secret_file = 4096;

Result<std::string> checked(std::string secret, const std::string& where) {
  if (secret.size() >= fewest_characters) return secret;
  return bad_input(fmt::format("the secret in {} has {} characters, {} at least are needed", where, secret.size(),
                               fewest_characters),
                   "openssl rand -hex 32 makes a good one");
}

Result<std::string> read_secret(const fs::path& path) {
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  struct stat facts {};
  if (::fstat(file->descriptor(), &facts) != 0)
    return bad_input(fmt::format("cannot read {}: {}", path.string(), system_reason()),
                     "check the path and its permissions");
  if (facts.st_uid != ::geteuid() && facts.st_uid != 0)
    return bad_input(fmt::format("{} belongs to user {}, not to you", path.string(), facts.st_uid),
                     "use a file of your own: --rdzv-secret-file FILE");
  if ((facts.st_mode & 077) != 0)
    return bad_input(
        fmt::format("{} is open to other users (mode {:03o})", path.string(), facts.st_mode & 0777),
        fmt::format("chmod 600 {}; other users may have read it, so remove it first to get a new one", path.string()));
  const auto text = file->beginning(longest_secret_file);
  if (!text) return text.error();
  return checked(std::string(trim(*text)), path.string());
}

Error cannot_make(const fs::path& path) {
  return {Error::Kind::failed, fmt::format("cannot make {}, the secret of the run: {}", path.string(), system_reason()),
          "give every host --rdzv-secret-file FILE or the same MUSTER_RDZV_SECRET, or every host --insecure"};
}

bool write_all(const FileDescriptor& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(file.number(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return ::fsync(file.number()) == 0;
}

// Several hosts may do this at once: the first one's file stays. A link is made at once and whole, on NFS, too.
Result<void> make_secret(const fs::path& path) {
  std::error_code failure;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), failure);
  const fs::path beside = fmt::format("{}.part-{}", path.string(), random_hexadecimal(8));
  const FileDescriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return cannot_make(path);
  const bool made = write_all(file, random_hexadecimal(secret_bytes) + "\n") &&
                    (::link(beside.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const Error error = cannot_make(path);
  ::unlink(beside.c_str());
  if (!made) return error;
  return {};
}

}  // namespace

Result<SecretSource> usual_secret_source() {
  if (const char* given = std::getenv("MUSTER_RDZV_SECRET"); given != nullptr && *given != '\0')
    return SecretSource{SecretSource::Kind::text, given, {}};
  auto usual = usual_secret_file();
  if (!usual) return usual.error();
  return SecretSource{SecretSource::Kind::file, {}, std::move(*usual)};
}

Result<fs::path> usual_secret_file() {
  if (const auto home = state_home()) return *home / "rendezvous-secret";
  return bad_input("several hosts share a secret, and neither MUSTER_STATE nor HOME says where it is kept",
                   "--rdzv-secret-file FILE, or MUSTER_RDZV_SECRET");
}

Result<std::optional<std::string>> find_secret(const SecretSource& source) {
  std::error_code failure;
  switch (source.kind) {
    case SecretSource::Kind::own:
      return std::optional(random_hexadecimal(secret_bytes));
    case SecretSource::Kind::insecure:
      return std::optional(std::string());
    case SecretSource::Kind::file:
      if (!fs::exists(source.file, failure) && !failure) return std::optional<std::string>();
      break;
    case SecretSource::Kind::text:
      break;
  }
  auto secret = source.kind == SecretSource::Kind::file ? read_secret(source.file)
                                                        : checked(source.text, "MUSTER_RDZV_SECRET");
  if (!secret) return secret.error();
  return std::optional(std::move(*secret));
}

Result<std::string> make_or_read_secret(const SecretSource& source) {
  auto found = find_secret(source);
  if (!found) return found.error();
  if (*found) return std::move(**found);
  if (const auto made = make_secret(source.file); !made) return made.error();
  return read_secret(source.file);
}

}  // namespace muster::launch

#include "wire/unix_socket.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "system/files.hpp"

namespace muster::wire {
namespace {

constexpr std::size_t longest_path = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::size_t longest_name = 16;  // of a socket in a private folder

Result<std::pair<sockaddr_un, FileDescriptor>> make_socket(const std::filesystem::path& path, int flags) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& text = path.native();
  if (text.empty() || text.size() > longest_path)
    return Error{Error::Kind::bad_input,
                 fmt::format("the path of a socket has {} bytes, and {} at most are possible: {}", text.size(),
                             longest_path, text),
                 ""};
  std::memcpy(address.sun_path, text.data(), text.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!socket) return Error{Error::Kind::failed, fmt::format("cannot open a socket: {}", system_reason()), ""};
  return std::pair(address, std::move(socket));
}

}  // namespace

Result<PrivateFolder> PrivateFolder::create() {
  const char* chosen = std::getenv("TMPDIR");
  std::string base = chosen != nullptr && *chosen != '\0' ? chosen : "/tmp";
  const std::string_view name = "/muster-XXXXXX";
  if (base.size() + name.size() + 1 + longest_name > longest_path) base = "/tmp";
  std::string path = base + std::string(name);
  if (::mkdtemp(path.data()) == nullptr)
    return Error{Error::Kind::failed, fmt::format("cannot make a folder in {}: {}", base, system_reason()),
                 "set TMPDIR to a folder that can be written to"};
  return PrivateFolder(std::move(path));
}

PrivateFolder::PrivateFolder(PrivateFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
PrivateFolder& PrivateFolder::operator=(PrivateFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}
PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<FileDescriptor> listen_at(const std::filesystem::path& path) {
  auto made = make_socket(path, SOCK_NONBLOCK);
  if (!made) return made.error();
  auto& [address, socket] = *made;
  if (::bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.number(), SOMAXCONN) != 0)
    return Error{Error::Kind::failed, fmt::format("cannot listen at {}: {}", path.native(), system_reason()), ""};
  return std::move(socket);
}

Result<FileDescriptor> connect_at(const std::filesystem::path& path) {
  auto made = make_socket(path, 0);
  if (!made) return made.error();
  auto& [address, socket] = *made;
  if (::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return Error{Error::Kind::failed, fmt::format("cannot connect to {}: {}", path.native(), system_reason()), ""};
  return std::move(socket);
}

}  // namespace muster::wire

#include "lease/held_name.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <thread>

namespace muster::lease {
namespace {

// FNV-1a: the same in every process and version.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xCBF29CE484222325U;
  for (const char character : text) value = (value ^ static_cast<unsigned char>(character)) * 0x100000001B3U;
  return value;
}

struct Address {
  sockaddr_un bytes{};
  socklen_t length = 0;
};

// A first byte of 0 says that the rest is a name and not a path.
Address address_of(const std::string& name) {
  Address address;
  address.bytes.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.bytes.sun_path - 1);
  std::memcpy(address.bytes.sun_path + 1, name.data(), length);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

FileDescriptor open_socket() { return FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

}  // namespace

std::string name_in_kernel(const std::filesystem::path& folder, const std::string& lock_file) {
  constexpr std::size_t longest_file = 64;
  std::error_code failure;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(folder, failure);
  const std::string file = lock_file.size() <= longest_file ? lock_file : fmt::format("{:016x}", hash(lock_file));
  return fmt::format("muster-lease/{:016x}/{}", hash((failure ? folder : whole).string()), file);
}

HeldName take_name(const std::string& name, std::chrono::milliseconds patience) {
  const Address address = address_of(name);
  const auto end = std::chrono::steady_clock::now() + patience;
  HeldName held{open_socket()};
  while (held.socket) {
    if (::bind(held.socket.number(), reinterpret_cast<const sockaddr*>(&address.bytes), address.length) == 0)
      return held;
    held.is_taken = errno == EADDRINUSE;
    if (!held.is_taken || std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  held.socket = FileDescriptor();
  return held;
}

bool is_name_taken(const std::string& name) {
  const Address address = address_of(name);
  const FileDescriptor socket = open_socket();
  return socket && ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address.bytes), address.length) == 0;
}

}  // namespace muster::lease

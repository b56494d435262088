#include "checkpoint/piece_file_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "system/disk_space.hpp"
#include "system/file_descriptor.hpp"
#include "system/files.hpp"
#include "checkpoint/checksum.hpp"

namespace muster::checkpoint {
namespace {

constexpr std::size_t write_bytes = std::size_t{8} << 20;

// A full disk is a refusal: starting the work again would meet it again.
Error cannot_write_pieces(const std::filesystem::path& path) {
  const auto kind = is_disk_full(errno) ? Error::Kind::refused : Error::Kind::failed;
  return {kind, fmt::format("cannot write {}: {}", path.string(), system_reason()),
          kind == Error::Kind::refused ? "free space there, or keep fewer checkpoints: training.save_total_limit"
                                       : "check permissions of the folder"};
}

// The disk begins to write what has come so far, so that the flush at the end has little left to wait for.
void start_writing(int file, std::uint64_t offset, std::size_t bytes) {
  ::sync_file_range(file, static_cast<off_t>(offset), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
}

bool write_all(int file, std::uint64_t offset, std::span<const std::byte> bytes, const std::stop_token& stop,
               std::atomic<std::uint64_t>& written) {
  while (!bytes.empty()) {
    if (stop.stop_requested()) return errno = ECANCELED, false;
    const ssize_t put = ::pwrite(file, bytes.data(), std::min(bytes.size(), write_bytes), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    start_writing(file, offset, static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
    written = offset;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace

Result<std::uint64_t> write_piece_file(const std::filesystem::path& path, const SaveIdentity& identity,
                                       const HostCopy& copy, const std::stop_token& stop,
                                       std::atomic<std::uint64_t>& written) {
  std::vector<std::uint64_t> checksums;
  for (std::size_t i = 0; i < copy.pieces().size() && !stop.stop_requested(); ++i)
    checksums.push_back(checksum_of(copy.bytes(i)));
  const std::string header = print_piece_header(identity, copy.pieces(), checksums);
  std::filesystem::path unfinished = path;
  unfinished += ".part";
  const FileDescriptor file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  const auto numbers = copy.all();
  if (!file || !write_all(file.number(), 0, std::as_bytes(std::span(header)), stop, written) ||
      !write_all(file.number(), header.size(), numbers, stop, written) || ::fsync(file.number()) != 0 ||
      ::rename(unfinished.c_str(), path.c_str()) != 0)
    return cannot_write_pieces(path);
  return header.size() + numbers.size();
}

}  // namespace muster::checkpoint

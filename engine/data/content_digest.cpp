#include "data/content_digest.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

#include "system/files.hpp"
#include "system/regular_file.hpp"
#include "system/sha256.hpp"
#include "base/text.hpp"
#include "data/ordered_work.hpp"

namespace muster::data {
namespace {

constexpr std::uint64_t block_bytes = std::uint64_t{8} << 20;
constexpr std::size_t digest_length = 64;

struct Block {
  std::size_t file = 0;
  std::uint64_t begin = 0, end = 0;
};

std::vector<Block> blocks_of(std::span<const RowFile> files) {
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (std::uint64_t at = 0; at < files[i].size; at += block_bytes)
      blocks.push_back({i, at, std::min(at + block_bytes, files[i].size)});
  return blocks;
}

Result<std::string> digest_of_block(const RowFile& file, const Block& block) {
  const auto opened = RegularFile::open(file.path);
  if (!opened) return opened.error();
  std::vector<std::byte> bytes(static_cast<std::size_t>(block.end - block.begin));
  if (auto read = opened->read_at(block.begin, bytes); !read) return read.error();
  Sha256 digest;
  digest.add(bytes);
  return digest.finish();
}

void add_text(Sha256& digest, const std::string& text) { digest.add(std::as_bytes(std::span(text))); }

// A file that was written a moment ago can be written again without a change of its time.
bool is_settled(std::span<const RowFile> files) {
  const std::time_t now = std::time(nullptr);
  return std::ranges::all_of(files, [&](const RowFile& file) {
    struct stat facts {};
    return ::stat(file.path.c_str(), &facts) == 0 && facts.st_mtime + 2 < now;
  });
}

}  // namespace

Result<std::string> stamp_of(std::span<const RowFile> files) {
  Sha256 digest;
  for (const RowFile& file : files) {
    struct stat facts {};
    if (::stat(file.path.c_str(), &facts) != 0)
      return Error{Error::Kind::failed, fmt::format("{} cannot be read: {}", file.path.string(), system_reason()),
                   "check that the file is still there"};
    std::error_code ignored;
    add_text(digest,
             fmt::format("{}\n{} {} {} {} {}.{:09} {}.{:09}\n", std::filesystem::absolute(file.path, ignored).string(),
                         static_cast<int>(file.kind), facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtim.tv_sec,
                         facts.st_mtim.tv_nsec, facts.st_ctim.tv_sec, facts.st_ctim.tv_nsec));
  }
  return digest.finish();
}

Result<std::string> digest_of(std::span<const RowFile> files, int threads,
                              const std::function<void(std::uint64_t)>& done) {
  const auto blocks = blocks_of(files);
  Sha256 digest;
  std::size_t file = 0;
  std::uint64_t bytes = 0;
  const auto begin_files = [&](std::size_t last) {
    for (; file <= last && file < files.size(); ++file)
      add_text(digest, fmt::format("kind {} size {}\n", static_cast<int>(files[file].kind), files[file].size));
  };
  const auto taken = work_in_order(
      blocks.size(), threads, [&](std::size_t i) { return digest_of_block(files[blocks[i].file], blocks[i]); },
      [&](std::size_t i, Result<std::string> block) -> Result<void> {
        if (!block) return block.error();
        begin_files(blocks[i].file);
        add_text(digest, *block);
        bytes += blocks[i].end - blocks[i].begin;
        done(bytes);
        return {};
      });
  if (!taken) return taken.error();
  begin_files(files.size());
  return digest.finish();
}

Result<std::string> remembered_digest(std::span<const RowFile> files, const std::filesystem::path& folder, int threads,
                                      const std::function<void(std::uint64_t)>& done) {
  const auto stamp = stamp_of(files);
  if (!stamp) return stamp.error();
  const std::filesystem::path place = folder / (*stamp + ".digest");
  std::error_code ignored;
  if (std::filesystem::exists(place, ignored))
    if (const auto known = read_file(place); known && trim(*known).size() == digest_length)
      return std::string(trim(*known));
  auto digest = digest_of(files, threads, done);
  if (!digest) return digest;
  const auto after = stamp_of(files);
  if (!after) return after.error();
  if (*after != *stamp)
    return Error{Error::Kind::failed, "the data changed while it was read", "start again when nothing writes to it"};
  if (is_settled(files))
    if (auto written = write_file_atomically(place, *digest + "\n"); !written) return written.error();
  return digest;
}

}  // namespace muster::data

#include "launch/error_tail.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.hpp"

namespace muster::launch {
namespace {

// One byte more than is kept, so that it can be seen whether anything is missing.
constexpr std::size_t looked_at = ErrorTail::kept_bytes + 1;

std::string read_end(const FileDescriptor& file) {
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return {};
  off_t at = std::max<off_t>(0, status.st_size - static_cast<off_t>(looked_at));
  std::string text(looked_at, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::pread(file.number(), text.data() + size, text.size() - size, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
    at += got;
  }
  text.resize(size);
  return text;
}

// What is left to see of a line after every "\r" has gone back to its beginning.
std::string_view visible(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t at = line.rfind('\r');
  return at == std::string_view::npos ? line : line.substr(at + 1);
}

}  // namespace

void ErrorTail::read_from(FileDescriptor file) {
  const std::scoped_lock lock(mutex_);
  file_ = std::move(file);
}

void ErrorTail::remember(std::string_view bytes) {
  const std::scoped_lock lock(mutex_);
  if (bytes.size() > looked_at) bytes.remove_prefix(bytes.size() - looked_at);
  // Cut seldom: each cut moves what is kept.
  if (text_.size() + bytes.size() > 4 * kept_bytes && text_.size() > looked_at)
    text_.erase(0, text_.size() - looked_at);
  text_ += bytes;
}

std::vector<std::string> ErrorTail::lines(std::size_t count) const {
  const std::scoped_lock lock(mutex_);
  const std::string from_file = file_ ? read_end(file_) : std::string();
  std::string_view text = file_ ? from_file : text_;
  if (text.size() > kept_bytes) {
    text.remove_prefix(text.size() - kept_bytes);
    const std::size_t first_end = text.find('\n');
    if (first_end != std::string_view::npos && first_end + 1 < text.size()) text.remove_prefix(first_end + 1);
  }
  std::vector<std::string> lines;
  for (const std::string& line : split(text, '\n')) lines.emplace_back(visible(line));
  while (!lines.empty() && trim(lines.back()).empty()) lines.pop_back();
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

}  // namespace muster::launch

#include "monitor/file_tail.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/cell_text.hpp"
#include "system/file_descriptor.hpp"
#include "base/text.hpp"

namespace muster::monitor {

bool ChangeMark::has_changed(const std::filesystem::path& path) {
  const ChangeMark before = *this;
  struct stat facts = {};
  const bool exists = ::stat(path.c_str(), &facts) == 0;
  file_ = exists ? facts.st_ino : 0;
  size_ = exists && S_ISREG(facts.st_mode) ? static_cast<std::uint64_t>(facts.st_size) : 0;
  changed_ = exists ? facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec : 0;
  return file_ != before.file_ || size_ != before.size_ || changed_ != before.changed_;
}

bool FileTail::refresh() {
  if (!mark_.has_changed(path_)) return false;
  text_.clear();
  const std::uint64_t size = mark_.size();
  if (size == 0) return true;
  const FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return true;
  const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(size, most_bytes_));
  text_.resize(length);
  const ssize_t got = ::pread(file.number(), text_.data(), length, static_cast<off_t>(size - length));
  text_.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  if (length < size) {  // it begins in the middle of a line, where it has more than one
    const auto end = text_.find('\n');
    if (end != std::string::npos && end + 1 < text_.size()) text_.erase(0, end + 1);
  }
  return true;
}

std::vector<std::string> FileTail::lines(std::size_t most) const {
  std::vector<std::string> found;
  std::string_view rest = text_;
  while (!rest.empty() && found.size() < most) {
    if (rest.back() == '\n') rest.remove_suffix(1);
    const auto before = rest.rfind('\n');
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    std::string line = visible_line(rest.substr(begin));
    if (!found.empty() || !trim(line).empty()) found.push_back(std::move(line));
    rest = rest.substr(0, begin);
  }
  std::ranges::reverse(found);
  return found;
}

}  // namespace muster::monitor

#include "job/generate/typed_history.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "system/file_descriptor.hpp"
#include "system/state_home.hpp"

namespace muster::job {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t most_bytes = std::size_t{4} << 20;

// A regular file that belongs to this user; others are neither read nor written.
FileDescriptor open_own(const fs::path& file, int flags) {
  FileDescriptor opened(::open(file.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0600));
  struct stat facts = {};
  if (opened && (::fstat(opened.number(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid()))
    return {};
  return opened;
}

std::string as_line(const std::string& line) {
  return json(line).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string content_of(const FileDescriptor& file) {
  std::string content;
  char block[65536];
  for (ssize_t got = 0; (got = ::read(file.number(), block, sizeof block)) > 0 && content.size() < most_bytes;)
    content.append(block, static_cast<std::size_t>(got));
  return content;
}

}  // namespace

std::optional<TypedHistory> TypedHistory::usual() {
  const auto home = state_home();
  return home ? std::optional(TypedHistory(*home / "conversation_history")) : std::nullopt;
}

std::vector<std::string> TypedHistory::read() const {
  const FileDescriptor file = open_own(file_, O_RDONLY);
  if (!file) return {};
  std::vector<std::string> lines;
  const std::string content = content_of(file);
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    const json line = json::parse(content.substr(at, end - at), nullptr, false);
    if (line.is_string()) lines.push_back(line.get<std::string>());
    at = end + 1;
  }
  if (lines.size() > most_lines) lines.erase(lines.begin(), lines.end() - most_lines);
  return lines;
}

void TypedHistory::add(const std::string& line) const {
  std::error_code ignored;
  fs::create_directories(file_.parent_path(), ignored);
  const FileDescriptor file = open_own(file_, O_WRONLY | O_CREAT | O_APPEND);
  if (!file) return;
  const std::string text = as_line(line);
  static_cast<void>(!::write(file.number(), text.data(), text.size()));
  struct stat facts = {};
  if (::fstat(file.number(), &facts) != 0 || static_cast<std::size_t>(facts.st_size) < most_bytes / 2) return;
  // It has grown too long: only the newest lines stay.
  std::string kept;
  for (const std::string& each : read()) kept += as_line(each);
  const fs::path fresh = file_.string() + ".new";
  ::unlink(fresh.c_str());
  const FileDescriptor replacement = open_own(fresh, O_WRONLY | O_CREAT | O_EXCL);
  if (replacement && ::write(replacement.number(), kept.data(), kept.size()) == static_cast<ssize_t>(kept.size()))
    fs::rename(fresh, file_, ignored);
}

}  // namespace muster::job

#include "base/process.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/files.hpp"
#include "base/text.hpp"

namespace muster {

std::string user_name(uid_t user) {
  std::vector<char> space(4096);
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(user, &entry, space.data(), space.size(), &found) == 0 && found != nullptr) return found->pw_name;
  return std::to_string(user);
}

std::optional<ProcessFacts> read_process(pid_t pid, const std::filesystem::path& proc) {
  const std::filesystem::path folder = proc / std::to_string(pid);
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return std::nullopt;
  ProcessFacts facts;
  facts.user = user_name(status.st_uid);
  if (auto line = read_file(folder / "cmdline"); line && !line->empty()) {
    std::ranges::replace(*line, '\0', ' ');
    facts.command = std::string(trim(*line));
  } else if (auto name = read_file(folder / "comm"); name) {
    facts.command = std::string(trim(*name));
  }
  return facts;
}

}  // namespace muster

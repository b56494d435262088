#include "system/process.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "system/files.hpp"
#include "base/text.hpp"

namespace muster {

unsigned int current_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

std::string user_name(uid_t user) {
  std::vector<char> space(4096);
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(user, &entry, space.data(), space.size(), &found) == 0 && found != nullptr) return found->pw_name;
  return std::to_string(user);
}

Result<std::filesystem::path> own_program() {
  constexpr std::string_view replaced = " (deleted)";  // the kernel's word
  std::error_code failure;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", failure).string();
  if (failure)
    return Error{Error::Kind::failed, "cannot tell which program this is: " + failure.message(),
                 "/proc has to be mounted"};
  const bool was_replaced = program.ends_with(replaced) && !std::filesystem::exists(program, failure);
  return std::filesystem::path(program.substr(0, program.size() - (was_replaced ? replaced.size() : 0)));
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

std::string to_string(const ProcessIdentity& identity) {
  return std::to_string(identity.pid) + "-" + std::to_string(identity.start);
}

std::optional<ProcessIdentity> parse_identity(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto pid = parse_number<pid_t>(text.substr(0, dash));
  const auto start = parse_number<std::uint64_t>(text.substr(dash + 1));
  if (!pid || *pid <= 0 || !start) return std::nullopt;
  return ProcessIdentity{*pid, *start};
}

std::optional<ProcessStatus> parse_process_status(std::string_view line) {
  // "4711 (name) S 4710 …": the name may hold anything, a closing parenthesis too.
  const std::size_t name_end = line.rfind(") ");
  const auto pid = parse_number<pid_t>(line.substr(0, line.find(' ')));
  if (name_end == std::string_view::npos || !pid) return std::nullopt;
  const std::vector<std::string> words = split(line.substr(name_end + 2), ' ');
  constexpr std::size_t flags_word = 6, start_word = 19;
  constexpr std::uint64_t exiting_flag = 0x4;  // PF_EXITING
  if (words.size() <= start_word) return std::nullopt;
  const auto parent = parse_number<pid_t>(words[1]);
  const auto group = parse_number<pid_t>(words[2]);
  const auto session = parse_number<pid_t>(words[3]);
  const auto flags = parse_number<std::uint64_t>(words[flags_word]);
  const auto start = parse_number<std::uint64_t>(words[start_word]);
  if (!parent || !group || !session || !flags || !start) return std::nullopt;
  const bool ended = words[0] == "Z" || words[0] == "X";
  return ProcessStatus{{*pid, *start}, *parent, *group, *session, ended, ended || (*flags & exiting_flag) != 0};
}

std::optional<ProcessStatus> read_process_status(pid_t pid, const std::filesystem::path& proc) {
  const auto line = read_file(proc / std::to_string(pid) / "stat");
  return line ? parse_process_status(*line) : std::nullopt;
}

}  // namespace muster

// What was typed in earlier conversations: a file only this user can read, one JSON text per line, the oldest first.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace muster::job {

class TypedHistory {
 public:
  static constexpr std::size_t most_lines = 1000;  // that are kept

  explicit TypedHistory(std::filesystem::path file) : file_(std::move(file)) {}
  // $MUSTER_STATE/conversation_history, else ~/.local/state/muster/conversation_history; nothing where neither is set.
  static std::optional<TypedHistory> usual();

  // Lines that cannot be read are left out; so is a file that is not this user's.
  std::vector<std::string> read() const;
  // Silent where it cannot be stored: it is only a convenience.
  void add(const std::string& line) const;

  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
};

}  // namespace muster::job

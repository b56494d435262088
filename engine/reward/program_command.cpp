#include "reward/program_command.hpp"

#include "base/one_line.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"

namespace muster::reward {

std::vector<std::string> command_of(const std::vector<std::string>& program) {
  if (program.size() != 1) return program;
  return {"/bin/sh", "-c", program.front()};
}

std::string shown_command(const std::vector<std::string>& program) {
  if (program.size() == 1) return on_one_line(program.front(), 120);
  std::vector<std::string> words;
  for (const std::string& word : program) words.push_back(shell_word(word));
  return on_one_line(join(words, " "), 120);
}

}  // namespace muster::reward

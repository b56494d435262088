// What could come next on a command line, for the completion of shells.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_description.hpp"

namespace muster::cli {

struct Candidate {
  std::string word;
  std::string help;
};

struct Completion {
  std::vector<Candidate> candidates;
  bool files = false;  // file names fit as well
};

// words: what follows the program's name, the last of them still being typed (and maybe empty).
Completion complete(const CommandDescription& program, std::span<const std::string> words);

// A line for each candidate, "word<TAB>help", and the line ":files" if file names fit.
std::string completion_lines(const Completion& completion);

// The script that makes a shell ask; empty for an unknown shell.
std::string_view completion_script(std::string_view shell);

}  // namespace muster::cli

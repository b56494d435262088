// What help and man pages show for each command: lines that run.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace muster::cli {

struct Example {
  std::string_view command;  // whose it is: "muster gpus pick"
  std::string_view line;     // as typed
  std::string_view meaning;  // in a few words
};

// All of them; a test runs each.
std::span<const Example> examples();
std::vector<Example> examples_of(std::string_view command);

}  // namespace muster::cli

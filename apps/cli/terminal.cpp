#include "cli/terminal.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace muster::cli {

bool output_has_colour() {
  const char* refused = std::getenv("NO_COLOR");
  if (refused != nullptr && *refused != '\0') return false;
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace muster::cli

#include "cli/called_as.hpp"

#include "system/files.hpp"

namespace muster::cli {

std::string called_as() {
  const auto words = read_file("/proc/self/cmdline");
  const std::string first = words ? words->substr(0, words->find('\0')) : "";
  return first.empty() ? "muster" : first;
}

}  // namespace muster::cli

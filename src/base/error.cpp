#include "base/error.hpp"

#include <fmt/format.h>

#include <utility>

namespace muster {

Error bad_input(std::string what, std::string remedy) {
  return {Error::Kind::bad_input, std::move(what), std::move(remedy)};
}

int exit_code(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::bad_input:
      return 2;
    case Error::Kind::refused:
      return 3;
    case Error::Kind::failed:
      return 1;
  }
  return 1;
}

std::string to_string(const Error& error) {
  if (error.remedy.empty()) return error.what;
  return fmt::format("{}\n  try: {}", error.what, error.remedy);
}

Error to_error(const std::vector<Problem>& problems) {
  std::string lines;
  for (const Problem& problem : problems) {
    if (!lines.empty()) lines += '\n';
    lines += problem.where.empty() ? problem.what : fmt::format("{}: {}", problem.where, problem.what);
    if (!problem.remedy.empty()) lines += fmt::format("; {}", problem.remedy);
  }
  return {Error::Kind::bad_input, lines, ""};
}

}  // namespace muster

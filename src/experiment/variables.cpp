#include "experiment/variables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/text.hpp"

namespace muster::experiment {
namespace {

using Named = std::function<Result<std::string>(const std::string& name)>;

Result<std::string> replaced(std::string_view text, const Named& value_of) {
  std::string out;
  while (!text.empty()) {
    if (text.starts_with("$${")) {
      out += "${";
      text.remove_prefix(3);
    } else if (text.starts_with("${")) {
      const auto end = text.find('}');
      if (end == std::string_view::npos)
        return Error{Error::Kind::bad_input, fmt::format("\"{}\" has no }}", text), "write ${name}, or $${ for ${"};
      const auto value = value_of(std::string(text.substr(2, end - 2)));
      if (!value) return value.error();
      out += *value;
      text.remove_prefix(end + 1);
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace

const std::vector<std::string>& variable_names() {
  static const std::vector<std::string> names{"algorithm", "family", "dataset", "round",  "seed", "job",
                                              "folder",    "model",  "data",    "output", "gpus"};
  return names;
}

Result<std::set<std::string>> variables_in(std::string_view text) {
  std::set<std::string> found;
  const auto done = replaced(text, [&](const std::string& name) -> Result<std::string> {
    if (std::ranges::find(variable_names(), name) == variable_names().end()) {
      const auto near = nearest(name, variable_names());
      return Error{Error::Kind::bad_input, fmt::format("there is no ${{{}}}", name),
                   near ? fmt::format("did you mean ${{{}}}?", *near)
                        : fmt::format("there are {}", join(variable_names(), ", "))};
    }
    found.insert(name);
    return std::string();
  });
  if (!done) return done.error();
  return found;
}

Result<std::string> replace_variables(std::string_view text, const Variables& values) {
  return replaced(text, [&](const std::string& name) -> Result<std::string> {
    const auto found = values.find(name);
    if (found != values.end()) return found->second;
    return Error{Error::Kind::failed, fmt::format("${{{}}} has no value here", name), ""};
  });
}

}  // namespace muster::experiment

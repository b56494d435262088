// A parameter as written in a sweep file, before it is known to be consistent.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/node_reader.hpp"
#include "sweep/parameter.hpp"

namespace muster::sweep {

struct ParameterDraft {
  enum class Scale { automatic, time };

  std::string path;
  TextPosition position;
  std::optional<Distribution> distribution;
  std::optional<double> min, max, mean, step;
  std::variant<Scale, double> scale = Scale::automatic;
  std::vector<Value> values;
};

// Readers of single values; their refusals name the parameter.
std::optional<double> read_number(NodeReader& reader, const std::string& what, const Node& node);
std::vector<Value> read_values(NodeReader& reader, const std::string& what, const Node& node);

// The parameter, or every reason why it is invalid.
std::optional<Parameter> complete(NodeReader& reader, const ParameterDraft& draft);

}  // namespace muster::sweep

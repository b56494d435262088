#include <nanobind/stl/string.h>

#include "base/byte_count.hpp"
#include "base/duration.hpp"
#include "bindings.hpp"
#include "errors.hpp"

namespace muster::python {

void bind_units(nanobind::module_& module) {
  module.def(
      "parse_byte_count", [](const std::string& text) { return value_or_raise(parse_byte_count(text)).value; },
      nanobind::arg("text"), "Bytes from a text such as \"20GiB\".");
  module.def(
      "parse_duration", [](const std::string& text) { return value_or_raise(parse_duration(text)).count(); },
      nanobind::arg("text"), "Milliseconds from a text such as \"10m\".");
}

}  // namespace muster::python

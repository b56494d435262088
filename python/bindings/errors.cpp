#include "errors.hpp"

#include "bindings.hpp"

namespace muster::python {

void raise(const Error& error) {
  switch (error.kind) {
    case Error::Kind::bad_input:
      throw std::invalid_argument(to_string(error));
    case Error::Kind::refused:
      throw Refusal(to_string(error));
    case Error::Kind::failed:
      throw std::runtime_error(to_string(error));
  }
  throw std::logic_error("an error of no known kind");
}

void bind_errors(nanobind::module_& module) {
  nanobind::exception<Refusal>(module, "RefusedError", PyExc_RuntimeError).attr("__doc__") =
      "What was asked for is well-formed, but it does not fit or is busy.";
}

}  // namespace muster::python

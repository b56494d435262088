// Where a Result becomes a value or a Python exception: bad input a ValueError, a refusal a RefusedError (which is a
// RuntimeError), a failure a RuntimeError.
#pragma once

#include <stdexcept>
#include <utility>

#include "base/result.hpp"

namespace muster::python {

class Refusal : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void raise(const Error& error);

template <class T>
T value_or_raise(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

}  // namespace muster::python

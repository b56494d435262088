// What a described struct is (fields.hpp), for visitors that have nothing to do with JSON.
#pragma once

namespace muster {

struct IgnoreFields {
  template <class T>
  void operator()(const char*, T&, const auto&...) const {}
};
template <class T>
concept Described = requires(T& value) {
  T::describe(value, IgnoreFields{});
};

}  // namespace muster

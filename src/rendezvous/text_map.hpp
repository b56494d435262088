// A hash map with text for keys that is searched without making a string of the key first.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace muster::rendezvous {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

}  // namespace muster::rendezvous

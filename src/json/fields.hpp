// Structs as JSON. A struct names its fields once, in describe(); writing and reading are two visitors over it:
//
//   struct Ready {
//     int count = 0;
//     template <class Self, class Visit>
//     static void describe(Self& self, Visit&& visit) { visit("count", self.count); }
//   };
//
// A field may be a bool, a number, a text, milliseconds, an enum with words, a described struct, a vector of these, or
// an optional one, which may be null or missing. Every other field must be present; unknown fields are
// skipped. What else describe() says about a field is for other visitors.
//
// Headers of described structs need nothing from here: nlohmann's header stays in the sources that read and write.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "json/described.hpp"
#include "json/json_text.hpp"

namespace muster {

using Json = nlohmann::ordered_json;

// An enum has words where words(Enum) beside it lists them, as texts with their values: spec/values.hpp. The first text of
// a value is the one that is written and read here; others are for what users type.
template <class T>
concept Worded = std::is_enum_v<T> && requires {
  words(T{});
};

template <Worded Enum>
auto written_words() {
  auto all = words(Enum{});
  std::vector<typename decltype(all)::value_type> first;
  for (const auto& word : all)
    if (std::ranges::find(first, word.value, [](const auto& earlier) { return earlier.value; }) == first.end())
      first.push_back(word);
  return first;
}

template <class T>
struct OptionalOf : std::false_type {};
template <class T>
struct OptionalOf<std::optional<T>> : std::true_type {};
template <class T>
struct VectorOf : std::false_type {};
template <class T>
struct VectorOf<std::vector<T>> : std::true_type {};

template <class T>
Json to_json(const T& value) {
  if constexpr (OptionalOf<T>::value) {
    return value ? to_json(*value) : Json();
  } else if constexpr (VectorOf<T>::value) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(to_json(item));
    return list;
  } else if constexpr (std::same_as<T, std::chrono::milliseconds>) {
    return value.count();
  } else if constexpr (Worded<T>) {
    for (const auto& word : words(T{}))
      if (word.value == value) return word.text;
    return Json();
  } else if constexpr (Described<T>) {
    Json object = Json::object();
    T::describe(value, [&](const char* name, const auto& field, const auto&...) { object[name] = to_json(field); });
    return object;
  } else {
    static_assert(!std::is_enum_v<T>, "an enum without words");
    return value;
  }
}

// Reads into value; returns what is wrong, or nothing.
template <class T, class Tree>
std::optional<std::string> read_json(const Tree& json, T& value) {
  const auto wanted = [&](std::string_view what) {
    return fmt::format("is {}, and must be {}", shown(nlohmann::json(json)), what);
  };
  if constexpr (OptionalOf<T>::value) {
    value.reset();
    return json.is_null() ? std::nullopt : read_json(json, value.emplace());
  } else if constexpr (VectorOf<T>::value) {
    if (!json.is_array()) return wanted("a list");
    value.clear();
    for (const auto& item : json)
      if (auto wrong = read_json(item, value.emplace_back())) return wrong;
    return std::nullopt;
  } else if constexpr (std::same_as<T, std::chrono::milliseconds>) {
    std::int64_t count = 0;
    auto wrong = read_json(json, count);
    value = std::chrono::milliseconds(count);
    return wrong;
  } else if constexpr (Worded<T>) {
    std::string known;
    for (const auto& word : written_words<T>()) {
      if (json.is_string() && json.template get_ref<const std::string&>() == word.text)
        return value = word.value, std::nullopt;
      known += fmt::format("{}{}", known.empty() ? "" : ", ", word.text);
    }
    return wanted("one of " + known);
  } else if constexpr (Described<T>) {
    if (!json.is_object()) return wanted("an object");
    std::optional<std::string> wrong;
    T::describe(value, [&]<class Field>(const char* name, Field& field, const auto&...) {
      if (wrong) return;
      const auto found = json.find(name);
      if (found == json.end()) {
        if constexpr (OptionalOf<Field>::value)
          field.reset();
        else
          wrong = fmt::format("has no \"{}\"", name);
      } else if (auto inner = read_json(*found, field)) {
        wrong = fmt::format("\"{}\" {}", name, *inner);
      }
    });
    return wrong;
  } else if constexpr (std::same_as<T, bool>) {
    if (!json.is_boolean()) return wanted("true or false");
    value = json.template get<bool>();
    return std::nullopt;
  } else if constexpr (std::integral<T>) {
    if (json.is_number_unsigned()) {
      const auto number = json.template get<std::uint64_t>();
      if (std::in_range<T>(number)) return value = static_cast<T>(number), std::nullopt;
    } else if (json.is_number_integer()) {
      const auto number = json.template get<std::int64_t>();
      if (std::in_range<T>(number)) return value = static_cast<T>(number), std::nullopt;
    }
    return wanted(fmt::format("a whole number of at most {}", std::numeric_limits<T>::max()));
  } else if constexpr (std::floating_point<T>) {
    // JSON cannot represent not-a-number or infinity.
    if (json.is_null()) return value = std::numeric_limits<T>::quiet_NaN(), std::nullopt;
    if (!json.is_number()) return wanted("a number");
    value = json.template get<T>();
    return std::nullopt;
  } else {
    static_assert(std::same_as<T, std::string>);
    if (!json.is_string()) return wanted("a text");
    value = json.template get<std::string>();
    return std::nullopt;
  }
}

// One of several structs, distinguished by the word under key.
template <class... Kinds>
void write_kind(Json& object, const char* key, const std::variant<Kinds...>& value) {
  std::visit(
      [&]<class Kind>(const Kind& kind) {
        object[key] = Kind::word;
        Kind::describe(kind, [&](const char* name, const auto& field, const auto&...) { object[name] = to_json(field); });
      },
      value);
}

template <class Tree, class... Kinds>
std::optional<std::string> read_kind(const Tree& object, const char* key, std::variant<Kinds...>& value) {
  std::string word;
  if (!object.is_object() || !object.contains(key)) return fmt::format("has no \"{}\"", key);
  if (auto wrong = read_json(object.at(key), word)) return fmt::format("\"{}\" {}", key, *wrong);
  std::optional<std::string> wrong = fmt::format("\"{}\" is \"{}\", which is not known", key, word.substr(0, 80));
  const auto try_kind = [&]<class Kind>(std::type_identity<Kind>) {
    if (word == Kind::word) wrong = read_json(object, value.template emplace<Kind>());
  };
  (try_kind(std::type_identity<Kinds>{}), ...);
  return wrong;
}

// One line, without a newline. Bytes that are not UTF-8 become U+FFFD: JSON cannot carry them.
inline std::string as_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A described struct as one line of JSON, and back.
template <Described T>
std::string print_fields(const T& value) {
  return as_line(to_json(value));
}
template <Described T>
Result<T> parse_fields(std::string_view line, std::string_view source) {
  const auto json = parse_json_object(line, source);
  if (!json) return json.error();
  T value;
  if (auto wrong = read_json(*json, value)) return Error{Error::Kind::failed, fmt::format("{} {}", source, *wrong), ""};
  return value;
}

}  // namespace muster

// Filters, tests, methods and functions that templates can use: readable tables.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "chat/object.hpp"
#include "chat/value.hpp"

namespace muster::chat {

class Evaluation;

constexpr std::size_t most_parameters = 6;

// Arguments in the places of the parameters they belong to.
class Given {
 public:
  // The argument of a parameter, or nothing where it was left out.
  const Value* at(std::size_t parameter) const { return places_[parameter]; }
  bool has(std::size_t parameter) const { return places_[parameter] != nullptr; }
  const Arguments& all() const { return *all_; }

 private:
  friend bool bind(Evaluation& evaluation, const struct NativeFunction& function, const Arguments& arguments,
                   Given& given);
  std::array<const Value*, most_parameters> places_{};
  const Arguments* all_ = nullptr;
};

struct NativeFunction {
  std::string_view name;
  Value (*run)(Evaluation& evaluation, const Value& subject, const Given& given);  // subject: what is left of | is or .
  std::array<std::string_view, most_parameters> parameters{};                      // the unused ones are empty
  std::size_t required = 0;                                                        // of the parameters, from the first
  bool variadic = false;                                                           // takes all() as it likes
};

// Puts the arguments in their places; too many, too few, twice or unknown ones are a failure.
bool bind(Evaluation& evaluation, const NativeFunction& function, const Arguments& arguments, Given& given);

// bind, then run.
Value invoke(Evaluation& evaluation, const NativeFunction& function, const Value& subject, const Arguments& arguments);

using NativeTable = std::span<const NativeFunction>;
NativeTable text_filters();
NativeTable sequence_filters();
NativeTable number_filters();
NativeTable tests();
NativeTable text_methods();
NativeTable list_methods();
NativeTable dictionary_methods();
NativeTable global_functions();

const NativeFunction* find(NativeTable table, std::string_view name);
const NativeFunction* find_filter(std::string_view name);
const NativeFunction* find_test(std::string_view name);
std::vector<std::string> filter_names();
std::vector<std::string> test_names();

}  // namespace muster::chat

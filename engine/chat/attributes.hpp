// What follows a dot: the methods of texts, lists and mappings, and why something is undefined.
#pragma once

#include <string>
#include <string_view>

#include "chat/native_function.hpp"
#include "chat/value.hpp"

namespace muster::chat {

// A function of the tables as a value.
Value native(const NativeFunction& function);
// A method with the value it belongs to.
Value bound_method(const NativeFunction& method, Value subject);

// Why a value is undefined.
std::string reason_of(const Value& value);

}  // namespace muster::chat

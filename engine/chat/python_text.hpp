// Values as Python writes them.
#pragma once

#include <string>

#include "chat/value.hpp"

namespace muster::chat {

// The shortest digits that give the number back, as repr(float) has them: "0.1", "1e+16", "inf".
std::string float_text(double number);
std::string integer_text(Integer integer);
// Text in quotes with escapes.
std::string quoted(const std::string& text);

// Appends str(value), or repr(value) for what stands inside of lists and mappings. Stops beyond `most` bytes: false.
bool append_text(std::string& out, const Value& value, std::size_t most);
bool append_repr(std::string& out, const Value& value, std::size_t most);

}  // namespace muster::chat

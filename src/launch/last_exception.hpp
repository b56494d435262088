// The exception a program ended with, found in the last lines of its standard error.
#pragma once

#include <span>
#include <string>

namespace muster::launch {

// Its own lines, joined: "RuntimeError: …", for C++ what() told. Empty when the lines tell of none.
std::string last_exception(std::span<const std::string> lines);

}  // namespace muster::launch

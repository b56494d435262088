// Python's operations on text that filters and methods share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::chat {

constexpr std::size_t without_limit = static_cast<std::size_t>(-1);

// At white space, or at a separator, at most this many times.
std::vector<std::string> split_at_space(std::string_view text, std::size_t most, bool from_right);
std::vector<std::string> split_at(std::string_view text, std::string_view separator, std::size_t most, bool from_right);
// str.splitlines().
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);

std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::size_t most);
// How often a part occurs, without overlaps.
std::size_t occurrences(std::string_view text, std::string_view part);

}  // namespace muster::chat

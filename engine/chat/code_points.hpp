// Text as Python sees it: a sequence of code points, where ours is UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::chat {

// The code point at the beginning of text, which is not empty, and how many bytes it takes. A byte that begins no
// character counts as one of its own.
struct CodePoint {
  char32_t value = 0;
  std::size_t length = 1;
};
CodePoint first_code_point(std::string_view text);
CodePoint last_code_point(std::string_view text);

std::size_t count_code_points(std::string_view text);
// The byte at which the code point of this index begins; the text's size when there are fewer.
std::size_t byte_of_code_point(std::string_view text, std::size_t index);
// One view per code point.
std::vector<std::string_view> code_points(std::string_view text);

void append_code_point(std::string& text, char32_t value);

// str.isspace() of one code point.
bool is_space(char32_t value);
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
// Without the characters of `characters` at its ends.
std::string_view strip_left(std::string_view text, std::string_view characters);
std::string_view strip_right(std::string_view text, std::string_view characters);

}  // namespace muster::chat

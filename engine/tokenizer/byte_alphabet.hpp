// GPT-2's way to write bytes as printable characters: every byte has one of its own, and a space is "Ġ".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::tokenizer {

// The character, in UTF-8, that stands for a byte.
std::string_view character_of(unsigned char byte);

// The bytes that text stands for, or nothing where it holds a character that stands for none.
std::optional<std::string> bytes_of(std::string_view text);

// Each byte as its character.
std::string in_byte_alphabet(std::string_view bytes);

}  // namespace muster::tokenizer

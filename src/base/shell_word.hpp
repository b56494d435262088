// Words of a command as a line that a shell reads back.
#pragma once

#include <string>
#include <string_view>

namespace muster {

// As it is if it needs no quotes, else in single ones.
std::string shell_word(std::string_view word);

}  // namespace muster

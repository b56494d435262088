// What standard output is, and how to tell a user something apart from it.
#pragma once

#include <cstddef>
#include <string_view>

namespace muster::cli {

// Whether standard output is a terminal that wants colour (NO_COLOR and TERM=dumb are honoured).
bool output_has_colour();

// Whether this process's locale uses Unicode.
bool output_is_unicode();

// Columns of the terminal, else of COLUMNS, else 80.
std::size_t output_width();

// To standard error. A terminal that is gone or a full disk behind it does not end the work: the text is lost.
void tell_user(std::string_view text);

}  // namespace muster::cli

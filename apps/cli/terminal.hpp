// What standard output is.
#pragma once

#include <cstddef>

namespace muster::cli {

// Whether standard output is a terminal that wants colour (NO_COLOR and TERM=dumb are honoured).
bool output_has_colour();

// Whether texts of this process's locale are Unicode.
bool output_is_unicode();

// Columns of the terminal, else of COLUMNS, else 80.
std::size_t output_width();

}  // namespace muster::cli

// What standard output is.
#pragma once

namespace muster::cli {

// Whether standard output is a terminal that wants colour (NO_COLOR and TERM=dumb are honoured).
bool output_has_colour();

}  // namespace muster::cli

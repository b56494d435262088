// How the user called this program, for commands that are printed to be pasted.
#pragma once

#include <string>

namespace muster::cli {

// "muster", "./muster", "/opt/muster/bin/muster"; "muster" if that is not known.
std::string called_as();

}  // namespace muster::cli

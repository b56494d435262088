// The files this process has open.
#pragma once

#include <vector>

namespace muster {

// Ascending.
std::vector<int> open_descriptors();

}  // namespace muster

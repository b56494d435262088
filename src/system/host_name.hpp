// This host's name, for people. Machines find each other by address.
#pragma once

#include <string>

namespace muster {

std::string host_name();

}  // namespace muster

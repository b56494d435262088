// Whether processes can reach each other: over loopback, and by this machine's name.
#pragma once

#include <chrono>
#include <string>

#include "service/host_facts.hpp"

namespace muster::service {

// Why two sockets of 127.0.0.1 cannot exchange a byte, or nothing.
std::optional<std::string> try_loopback(std::chrono::milliseconds limit);

// Fills in what host_name resolves to. A name service that does not answer costs the limit, no more.
void resolve_host_name(NetworkFacts& facts, std::chrono::milliseconds limit);

std::string own_host_name();

}  // namespace muster::service

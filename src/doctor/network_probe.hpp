// Whether processes can reach each other: over loopback, and by this machine's name.
#pragma once

#include <chrono>
#include <string>

#include "doctor/host_facts.hpp"

namespace muster::doctor {

// Why two sockets on 127.0.0.1 cannot exchange a byte, or nothing.
std::optional<std::string> try_loopback(std::chrono::milliseconds limit);

// Asks the name service, however long that takes: one line per address, "local 10.0.0.7" or "other 10.0.0.8"; or
// "failed" and the reason.
std::string look_up(const std::string& host_name);

// Fills in what host_name resolves to. A name service that does not answer costs no more than the limit.
void resolve_host_name(NetworkFacts& facts, std::chrono::milliseconds limit,
                       std::string (*lookup)(const std::string&) = look_up);

std::string own_host_name();

}  // namespace muster::doctor

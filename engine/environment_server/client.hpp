// Asks a server of environments for a program that speaks lines of JSON (docs/environments.md), as if this were the
// environment.
#pragma once

#include <chrono>
#include <string>

namespace muster::environment_server {

struct ClientOptions {
  std::string address;  // HOST:PORT
  std::string environment;
  std::chrono::milliseconds patience{60'000};  // for each answer, and for a server that is not there
  std::string token;                           // empty: none
};

// Until the input ends.
void answer_lines(const ClientOptions& options);

}  // namespace muster::environment_server

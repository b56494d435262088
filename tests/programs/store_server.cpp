// Serves a store on a port of this machine, which it prints, until its standard input ends: store_server
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/socket.hpp"
#include "rendezvous/connection_server.hpp"
#include "rendezvous/key_value_store.hpp"

int main() {
  using namespace muster;
  auto listener = listen_everywhere(0);
  if (!listener) {
    fmt::print(stderr, "{}\n", to_string(listener.error()));
    return exit_code(listener.error().kind);
  }
  const std::uint16_t port = local_address(*listener).port();
  const auto make = [](char, rendezvous::Outbox& outbox) { return rendezvous::KeyValueStore::make(outbox); };
  const auto server =
      rendezvous::ConnectionServer::start(std::move(*listener), make, {&rendezvous::store_first_byte, 1});
  if (!server) {
    fmt::print(stderr, "{}\n", to_string(server.error()));
    return exit_code(server.error().kind);
  }
  fmt::print("{}\n", port);
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

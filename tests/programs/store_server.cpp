// Serves a store on a port of this machine, which it prints, until its standard input ends: store_server. Each line
// there begins a new round: the store is emptied, and "empty" is printed.
#include <fmt/format.h>

#include <iostream>
#include <string>

#include "system/socket.hpp"
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
  rendezvous::KeyValueStore* store = nullptr;
  const auto make = [&store](char, rendezvous::Outbox& outbox) {
    auto made = rendezvous::KeyValueStore::make(outbox);
    store = made.get();
    return made;
  };
  const auto server =
      rendezvous::ConnectionServer::start(std::move(*listener), make, {&rendezvous::store_first_byte, 1});
  if (!server) {
    fmt::print(stderr, "{}\n", to_string(server.error()));
    return exit_code(server.error().kind);
  }
  std::cout << port << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    (*server)->run([store] { store->clear(); });
    std::cout << "empty" << std::endl;
  }
  return 0;
}

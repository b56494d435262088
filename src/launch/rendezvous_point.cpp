#include "launch/rendezvous_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/key_value_store.hpp"

namespace muster::launch {
namespace {

constexpr std::string_view first_bytes("\0{", 2);

BoundRendezvous serving(FileDescriptor listener, std::string address) {
  const std::uint16_t port = local_address(listener).port();
  return {std::move(listener), {}, {std::move(address), port}};
}

bool can_serve_elsewhere_only(const Error& error, const RendezvousPoint& rendezvous_point) {
  return error.kind == Error::Kind::refused && rendezvous_point.kind == RendezvousPoint::Kind::by_endpoint && !rendezvous_point.serves;
}

// The endpoint's address alone, or everywhere: bind_rendezvous says when.
Result<FileDescriptor> listen_for_hosts(const Endpoint& endpoint, const std::vector<SocketAddress>& addresses,
                                        std::uint16_t port) {
  std::vector<SocketAddress> own;
  for (const SocketAddress& address : addresses)
    if (is_own_address(address)) own.push_back(address);
  const bool is_number = addresses.size() == 1 && addresses.front().host() == endpoint.host;
  const bool loopback = std::ranges::all_of(own, [](const SocketAddress& address) { return address.is_loopback(); });
  const bool means_loopback = is_number || endpoint.host == "localhost";
  if (own.empty() || (loopback ? !means_loopback : own.size() > 1)) return listen_everywhere(port);
  return listen_on(own.front());
}

// Where ranks of this host find a listener: its own address, or the first of the endpoint's.
std::string address_of(const FileDescriptor& listener, const std::vector<SocketAddress>& addresses) {
  const std::string bound = local_address(listener).host();
  return bound == "::" || bound == "0.0.0.0" ? addresses.front().host() : bound;
}

// One host: only itself needs to reach it.
Result<BoundRendezvous> meet_alone(const RendezvousPoint& rendezvous_point) {
  const auto addresses = resolve(rendezvous_point.endpoint.host, rendezvous_point.endpoint.port.value_or(0));
  if (!addresses) return addresses.error();
  if (!is_own_address(addresses->front()))
    return Error{Error::Kind::bad_input,
                 fmt::format("{} is not an address of this host, and the run has one host only", rendezvous_point.endpoint.host),
                 "leave --master-addr out"};
  auto listener = listen_on(addresses->front());
  if (!listener) return listener.error();
  return serving(std::move(*listener), addresses->front().host());
}

}  // namespace

Result<BoundRendezvous> bind_rendezvous(const LaunchRequest& request) {
  const RendezvousPoint& rendezvous_point = request.rendezvous_point;
  if (rendezvous_point.kind == RendezvousPoint::Kind::alone) return meet_alone(rendezvous_point);
  const std::uint16_t port = rendezvous_point.endpoint.port.value_or(0);
  const auto addresses = resolve(rendezvous_point.endpoint.host, port);
  if (!addresses) return addresses.error();
  const bool own_address = std::ranges::any_of(*addresses, is_own_address);
  const bool serves =
      rendezvous_point.kind == RendezvousPoint::Kind::by_rank ? rendezvous_point.node_rank == 0 : rendezvous_point.serves.value_or(own_address);
  if (serves) {
    auto listener = listen_for_hosts(rendezvous_point.endpoint, *addresses, port);
    if (listener) {
      const std::string address = address_of(*listener, *addresses);
      return serving(std::move(*listener), address);
    }
    // Another launcher on this host came first: it serves.
    if (!can_serve_elsewhere_only(listener.error(), rendezvous_point)) return listener.error();
  }
  return BoundRendezvous{{}, *addresses, {addresses->front().host(), port}};
}

Result<Coordinator> Coordinator::start(FileDescriptor listener, const LaunchRequest& request,
                                       const std::string& secret) {
  rendezvous::MembershipRules rules;
  rules.run_id = request.run_id;
  rules.minimum_hosts = request.hosts.minimum;
  rules.maximum_hosts = request.hosts.maximum;
  rules.maximum_restarts = request.maximum_restarts;
  rules.independent = request.independent;
  rules.join_timeout = request.times.join;
  rules.last_call = request.times.last_call;
  rules.alive_interval = request.times.alive_interval;
  rules.silence = request.times.silence;
  auto membership = rendezvous::Membership::make(rules, rendezvous::Clock::now());

  Coordinator coordinator;
  coordinator.membership_ = membership.get();
  coordinator.access_ = std::make_unique<rendezvous::StoreAccess>([notes = coordinator.notes_.get()](std::string text) {
    const std::scoped_lock lock(notes->mutex);
    notes->texts.push_back(std::move(text));
  });
  rendezvous::StoreAccess* access = coordinator.access_.get();
  const rendezvous::AgentAccess agents{secret, [access](const std::string& peer) { access->member_came(peer); },
                                       [access](const std::string& peer) { access->member_left(peer); }};
  rendezvous::KeyValueStore* store = nullptr;
  const auto make_handler = [&](char first_byte,
                                rendezvous::Outbox& outbox) -> std::unique_ptr<rendezvous::ConnectionHandler> {
    if (first_byte == rendezvous::agent_first_byte)
      return make_agent_handler(std::move(membership), agents, outbox, [store] { store->clear(); });
    auto made = rendezvous::KeyValueStore::make(outbox);
    store = made.get();
    return made;
  };
  // A thousand ranks have some thousand connections. The ranks themselves keep the limit: the keeper was forked before.
  rendezvous::raise_open_file_limit();
  // The agent of a run on one host comes in by a pair of sockets, never by the port.
  const bool several = request.secret.kind != SecretSource::Kind::own;
  rendezvous::ConnectionServer::Admits admits = [access, several](char first_byte, const FileDescriptor& socket) {
    return first_byte == rendezvous::agent_first_byte ? several : access->admits(socket);
  };
  if (request.secret.kind == SecretSource::Kind::insecure) admits = {};
  auto server = rendezvous::ConnectionServer::start(std::move(listener), make_handler, first_bytes, {}, admits);
  if (!server) return server.error();
  coordinator.server_ = std::move(*server);
  return coordinator;
}

std::string Coordinator::describe() {
  std::string text;
  server_->run([&] { text = membership_->describe(); });
  return text;
}

std::vector<std::string> Coordinator::take_notes() {
  const std::scoped_lock lock(notes_->mutex);
  return std::exchange(notes_->texts, {});
}

}  // namespace muster::launch

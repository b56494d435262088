#include "rendezvous/store_access.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "rendezvous/peer_user.hpp"

namespace muster::rendezvous {

void StoreAccess::member_left(const std::string& peer) {
  const auto found = members_.find(host_part(peer));
  if (found != members_.end() && --found->second == 0) members_.erase(found);
}

// "10.0.0.1:29500" and "[fe80::1]:29500" without their ports.
std::string StoreAccess::host_part(const std::string& peer) {
  const auto endpoint = parse_endpoint(peer);
  return endpoint ? endpoint->host : peer;
}

bool StoreAccess::admits(const FileDescriptor& socket) {
  const auto ends = ends_of(socket);
  if (!ends) return false;  // it is gone already
  const SocketAddress& peer = ends->other;
  const PeerUser holder = peer_user(*ends);
  if (holder.kind == PeerUser::Kind::user) {
    if (holder.user == ::geteuid()) return true;
    return refuse(told_of_user_, fmt::format("a process of user {} on this host", holder.user));
  }
  // A connection within this machine whose other end is not found was closed by a process that is not known.
  const bool within = peer.is_loopback() || peer.host() == ends->own.host();
  if (!within && holder.kind == PeerUser::Kind::elsewhere && members_.contains(peer.host())) return true;
  if (holder.kind == PeerUser::Kind::unknown)
    return refuse(told_of_user_, "a connection whose user the kernel does not tell");
  if (within) return refuse(told_of_address_, "a process that was gone at once");
  return refuse(told_of_address_, fmt::format("{}, which is not the address of a host of the run", peer.host()));
}

bool StoreAccess::refuse(bool& told, const std::string& reason) {
  if (!told && refused_)
    refused_(fmt::format("refused to open the store of the run to {}; --insecure would open it to everybody", reason));
  told = true;
  return false;
}

}  // namespace muster::rendezvous

// Who may use the store of a run. torch's own client knows no secret, so the kernel is asked instead: a process of this
// machine must belong to the user of the launcher; a connection from elsewhere must come from the address of a host
// whose agent has shown that it knows the run's secret.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "system/file_descriptor.hpp"
#include "system/socket.hpp"

namespace muster::rendezvous {

class StoreAccess {
 public:
  // refused: called with a sentence for the user the first time each kind of stranger is refused; may be empty.
  explicit StoreAccess(std::function<void(const std::string&)> refused) : refused_(std::move(refused)) {}

  // An agent has proved itself, or is gone. peer: its address with its port.
  void member_came(const std::string& peer) { ++members_[host_part(peer)]; }
  void member_left(const std::string& peer);

  bool admits(const FileDescriptor& socket);

 private:
  static std::string host_part(const std::string& peer);
  bool refuse(bool& told, const std::string& reason);

  std::function<void(const std::string&)> refused_;
  std::map<std::string, int> members_;  // agents at each address
  bool told_of_user_ = false;
  bool told_of_address_ = false;
};

}  // namespace muster::rendezvous

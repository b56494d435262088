// What the launcher orders and what the keeper tells, as bytes. Both ends are one program, so a message that cannot be
// read is a bug and throws.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "system/file_descriptor.hpp"
#include "launch/keeper/keeper.hpp"
#include "launch/keeper/keeper_connection.hpp"

namespace muster::launch {

struct StartWorker {
  int local_rank = 0;
  std::vector<std::string> command;
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<int> cpus;
  FileDescriptor output;
  FileDescriptor errors;
};
struct SignalWorkers {
  std::optional<int> local_rank;  // absent: all
  int signal = 0;
};
struct EndAll {
  std::chrono::milliseconds grace{};
};
using KeeperOrder = std::variant<StartWorker, SignalWorkers, EndAll>;

// The descriptors of the command go beside these bytes: output, then errors.
std::string encode(const WorkerCommand& worker, int local_rank);
std::string encode(const SignalWorkers& order);
std::string encode(const EndAll& order);
KeeperOrder decode_order(ReceivedMessage message);

// KeeperLost is never sent.
std::string encode(const KeeperEvent& event);
KeeperEvent decode_event(const ReceivedMessage& message);

}  // namespace muster::launch

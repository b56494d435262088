// What a worker has to do: the first message it gets, one value for all ranks. It knows which rank it is from its
// environment (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"
#include "wire/collective_check.hpp"
#include "wire/evaluate_task.hpp"
#include "wire/generate_task.hpp"
#include "wire/train_task.hpp"

namespace muster::wire {

// Raised with every change that an older program would misread. The two programs must have the same.
inline constexpr int protocol_version = 1;

enum class DeviceKind { cpu, cuda };
enum class Backend {
  gloo,                 // CPU ranks, and several ranks that share a GPU
  nccl,                 // one GPU for each rank
  nccl_on_shared_gpus,  // each rank poses as a separate host: slow, and a test of what runs on many GPUs
};
std::string_view to_word(DeviceKind device);
std::string_view to_word(Backend backend);

// A kind of task is a struct with a `word` and describe() (json/fields.hpp), and one function in engine/worker/task.hpp.
using Task = std::variant<CollectiveCheck, GenerateTask, TrainTask, EvaluateTask>;

struct Assignment {
  int version = protocol_version;
  Task task;
  DeviceKind device = DeviceKind::cpu;
  Backend backend = Backend::gloo;
  int threads = 1;  // that compute, in each rank
  std::uint64_t seed = 0;
  std::chrono::milliseconds timeout{600000};  // of one collective, after which the missing ranks are named
  bool operator==(const Assignment&) const = default;
};

}  // namespace muster::wire

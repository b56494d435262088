// What a training run shows while it works: the line of a step, and the memory of its ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_count.hpp"

namespace muster::job {

struct TrainProgress {
  std::int64_t step = 0, steps = 0;  // of how many; 0: unknown
  double loss = 0;
  std::optional<double> reward;         // of sampled answers, the mean
  std::optional<double> answer_tokens;  // theirs
  std::optional<double> preferred;  // of preferences: the share of pairs whose chosen answer has the higher reward
  std::optional<double> margin;     // and by how much, on average
  double learning_rate = 0;
  double gradient_norm = 0;
  double tokens_per_second = 0;
  std::optional<double> flop_utilization;  // of the devices' peak, from 0 to 1
  std::optional<ByteCount> memory;         // the most that the fullest rank has taken so far
  std::optional<double> seconds_left;
  std::int64_t skipped_steps = 0;  // so far, because their gradients overflowed
  std::optional<double> epoch;     // passes over the data so far
};

// "step 120/1200  loss 0.8312  lr 1.9e-03  norm 0.42  5,210 tokens/s  12.1 % MFU  1.2 GiB  58 s left"
std::string step_line(const TrainProgress& progress);

// One rank's share of its device, read in the rank itself.
struct RankReading {
  int rank = 0;
  std::optional<int> gpu;             // its number as the user counts them; absent: the CPU
  ByteCount allocated;                // in tensors, or on a CPU all that the process has
  ByteCount reserved;                 // by the allocator, including what it keeps for later
  ByteCount total;                    // of the device
  std::optional<ByteCount> used;      // of the device, by everyone
  std::optional<double> utilization;  // of the device, from 0 to 1
};

// In the guides' form: a title, then "  GPU 0: 45.23 GB allocated, 48.50 GB reserved, 80.00 GB total" for each rank, GB
// being 2^30 bytes as in nvidia-smi and PyTorch; with utilisation where it is known, and the rank where several
// share a GPU.
std::string memory_report(const std::vector<RankReading>& readings);

struct MemoryWarning {
  std::optional<int> gpu;  // absent: the host
  std::string text;        // with what can be done about it
};
// One for each device that is more than 90 % full.
std::vector<MemoryWarning> memory_warnings(const std::vector<RankReading>& readings);

}  // namespace muster::job

// Which ranks a training state lies on, and how.
#pragma once

#include <functional>
#include <memory>

#include "base/result.hpp"
#include "parallel/strategy.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

// Joins the ranks first, first + stride, … of the job, this many of them.
using JoinSome = std::function<Result<std::unique_ptr<communicate::Communicator>>(int first, int size, int stride)>;

class StateRanks {
 public:
  // all: of the job; it must outlive this.
  static Result<StateRanks> join(const wire::ShardingOptions& options, communicate::Communicator& all, const JoinSome& join);

  // Copies on one rank each are whole, unless they lie in host memory.
  bool is_sharded() const {
    if (options_.kind == spec::ShardingStrategy::hybrid_shard && options_.group == 1) return options_.offload;
    return options_.kind != spec::ShardingStrategy::no_shard;
  }
  bool in_host_memory(at::Device device) const { return is_sharded() && options_.offload && device.is_cuda(); }
  // Where the model's parameters get their memory: from the strategy that is made then, or by themselves.
  model::Memory parameter_memory(const tensor::DeviceOps& ops, at::ScalarType state) const {
    const bool shared = is_sharded() || parallel::replicas_share_masters(ops, state);
    return shared ? model::Memory::later : model::Memory::now;
  }
  // exact, state: as in parallel::make_replicas. The model must outlive the strategy.
  std::unique_ptr<parallel::Strategy> make_strategy(model::CausalModel& model, tensor::DeviceOps& ops,
                                                    bool exact, at::ScalarType state) const;

 private:
  StateRanks(const wire::ShardingOptions& options, communicate::Communicator& all) : options_(options), all_(&all) {}

  wire::ShardingOptions options_;
  communicate::Communicator* all_;
  // For hybrid_shard: the ranks of one copy, and those with the same part of others.
  std::unique_ptr<communicate::Communicator> of_copy_;
  std::unique_ptr<communicate::Communicator> of_part_;
};

}  // namespace muster::train

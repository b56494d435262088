#include "train/state_ranks.hpp"

#include <fmt/format.h>

namespace muster::train {

Result<StateRanks> StateRanks::join(const wire::ShardingOptions& options, communicate::Communicator& all,
                                    const JoinSome& join) {
  StateRanks ranks(options, all);
  if (options.kind != spec::ShardingStrategy::hybrid_shard || !ranks.is_sharded()) return ranks;
  const int group = static_cast<int>(options.group);
  if (group < 1 || all.size() % group != 0)
    return Error{Error::Kind::bad_input,
                 fmt::format("{} ranks cannot share copies among {} each", all.size(), options.group),
                 "distributed.fsdp_group_size must divide the number of ranks"};
  if (group == all.size()) return ranks;  // one copy: full_shard
  auto of_copy = join(all.rank() / group * group, group, 1);
  if (!of_copy) return of_copy.error();
  auto of_part = join(all.rank() % group, all.size() / group, group);
  if (!of_part) return of_part.error();
  ranks.of_copy_ = std::move(*of_copy);
  ranks.of_part_ = std::move(*of_part);
  return ranks;
}

std::unique_ptr<parallel::Strategy> StateRanks::make_strategy(model::CausalModel& model, tensor::DeviceOps& ops,
                                                              bool exact, at::ScalarType state) const {
  if (!is_sharded()) return parallel::make_replicas(model, ops, *all_, exact, state);
  const bool keeps = options_.kind == spec::ShardingStrategy::shard_grad_op;
  return parallel::make_shards(model, ops, {of_copy_ ? *of_copy_ : *all_, of_part_.get()},
                               {keeps, options_.offload, exact, state});
}

}  // namespace muster::train

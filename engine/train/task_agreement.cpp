#include "train/task_agreement.hpp"

#include <fmt/format.h>

#include <bit>
#include <filesystem>

#include "base/bit_mix.hpp"
#include "tensor/torch.hpp"

namespace muster::train {
namespace {

struct Fact {
  std::string_view name;
  std::int64_t value = 0;
};

std::int64_t mixed(const std::string& text) {
  std::uint64_t bits = 0;
  for (const char letter : text) bits = mix_bits(bits + static_cast<unsigned char>(letter) + 1);
  return static_cast<std::int64_t>(bits);
}

// What decides which exchanges there are, and what is in them.
std::vector<Fact> facts_of(const wire::TrainTask& task, std::uint64_t seed) {
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  const auto bits = [](double value) { return std::bit_cast<std::int64_t>(value); };
  const wire::OptimizerOptions& optimizer = task.optimizer;
  return {{"distributed.strategy or distributed.fsdp_sharding_strategy", number(task.sharding.kind)},
          {"distributed.fsdp_group_size", task.sharding.group},
          {"distributed.fsdp_cpu_offload", number(task.sharding.offload)},
          {"training.mixed_precision", number(task.compute)},
          {"model.dtype", number(task.state)},
          {"training.deterministic", number(task.exact)},
          {"training.packing", number(task.packing)},
          {"training.sequence_length", task.sequence_length},
          {"training.batch_size", task.batch_size},
          {"training.max_steps", task.steps},
          {"training.eval_steps", task.evaluation.every.value_or(0)},
          {"training.save_steps", task.save_every.value_or(0)},
          {"training.save_at_end", number(task.save_at_end)},
          {"the data for evaluation",
           number(task.evaluation.data.has_value()) + 2 * number(task.evaluation.questions.has_value())},
          {"experiment.seed", number(seed)},
          // Named after its contents.
          {"data", mixed(std::filesystem::path(task.data).filename().string())},
          {"model.init", number(task.random_weights)},
          {"training.optimizer", number(optimizer.kind)},
          {"training.learning_rate", bits(optimizer.rate)},
          {"training.lr_scheduler", number(optimizer.schedule)},
          {"training.warmup_steps", optimizer.warmup_steps},
          {"training.decay_steps", optimizer.decay_steps},
          {"training.weight_decay", bits(optimizer.weight_decay)},
          {"training.adam_beta1", bits(optimizer.beta1)},
          {"training.adam_beta2", bits(optimizer.beta2)},
          {"training.adam_epsilon", bits(optimizer.epsilon)},
          {"training.momentum", bits(optimizer.momentum)},
          {"training.max_grad_norm", bits(optimizer.max_gradient_norm)}};
}

}  // namespace

Result<void> agree_on_task(wire::TrainTask& task, std::uint64_t seed, communicate::Communicator& ranks,
                         at::Device device) {
  const std::vector<Fact> facts = facts_of(task, seed);
  std::vector<std::int64_t> own{task.micro_batch, static_cast<std::int64_t>(task.recompute)};
  for (const Fact& fact : facts) own.push_back(fact.value);
  const at::Tensor mine = at::tensor(own, at::kLong).to(device);
  at::Tensor all = at::empty({ranks.size(), mine.numel()}, mine.options());
  ranks.all_gather(mine, all);
  const at::Tensor host = all.cpu();
  const auto of_rank = [&](std::int64_t rank, std::size_t place) {
    return host[rank][static_cast<std::int64_t>(place)].item<std::int64_t>();
  };
  for (std::int64_t rank = 1; rank < ranks.size(); ++rank)
    for (std::size_t i = 0; i < facts.size(); ++i)
      if (of_rank(rank, i + 2) != of_rank(0, i + 2))
        return Error{Error::Kind::refused,
                     fmt::format("rank {} was started with another {} than rank 0", rank, facts[i].name),
                     "give every host the same settings; what auto would choose may differ, so name it"};
  task.micro_batch = of_rank(0, 0);
  task.recompute = static_cast<spec::Recomputation>(of_rank(0, 1));
  return {};
}

}  // namespace muster::train

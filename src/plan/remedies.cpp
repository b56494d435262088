// What would make a refused question fit. Every candidate is planned like the question itself; those that fit stay.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "plan/plan_parts.hpp"

namespace muster::plan {
namespace {

struct Candidate {
  std::string change;
  std::vector<OptionChange> options;
  std::function<void(Question&)> apply;
};

Result<Plan> plan_once(const Question& question) {
  return question.workload.work == Work::training ? plan_training(question) : plan_inference(question);
}

bool fits(const Question& question) {
  const auto plan = plan_once(question);
  return plan && plan->fits();
}

// The largest value below the present one, halving, with which the question fits.
std::optional<std::int64_t> halved(const Question& question, std::int64_t now, std::int64_t least,
                                   const std::function<void(Question&, std::int64_t)>& set) {
  for (std::int64_t value = now / 2; value >= least; value /= 2) {
    Question tried = question;
    set(tried, value);
    if (fits(tried)) return value;
  }
  return std::nullopt;
}

void add_halved(std::vector<Candidate>& list, const Question& question, std::string_view what,
                const std::string& option, std::int64_t now, std::int64_t least,
                const std::function<void(Question&, std::int64_t)>& set) {
  const auto value = halved(question, now, least, set);
  if (!value) return;
  list.push_back({fmt::format("{} {} instead of {}", what, *value, now),
                  {{option, std::to_string(*value)}},
                  [set, size = *value](Question& tried) { set(tried, size); }});
}

void add_sequence(std::vector<Candidate>& list, const Question& question) {
  add_halved(list, question, "sequences of at most", "--seq-len", question.workload.sequence, 128,
             [](Question& tried, std::int64_t value) {
               tried.workload.sequence = value;
               tried.workload.new_tokens = std::min(tried.workload.new_tokens, value / 2);
             });
}

void add_allocator(std::vector<Candidate>& list, const Question& question) {
  if (question.workload.expandable_segments) return;
  list.push_back({"the allocator's expandable segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)",
                  {{"--allocator", "expandable"}},
                  [](Question& tried) { tried.workload.expandable_segments = true; }});
}

std::vector<Candidate> training_candidates(const Question& question) {
  std::vector<Candidate> list;
  add_allocator(list, question);
  if (!question.workload.checkpointing)
    list.push_back({"recompute activations instead of keeping them", {{"--checkpointing", ""}}, [](Question& tried) {
                      tried.workload.checkpointing = true;
                    }});
  if (question.micro_batch && *question.micro_batch > 1)
    add_halved(list, question, "a micro-batch of", "--micro-batch", *question.micro_batch, 1,
               [](Question& tried, std::int64_t value) {
                 if (tried.accumulation) tried.accumulation = *tried.accumulation * (*tried.micro_batch / value);
                 tried.micro_batch = value;
               });
  add_sequence(list, question);
  if (question.scheme && *question.scheme != Scheme::fsdp && question.devices.size() > 1)
    list.push_back({"shard weights, gradients and optimizer over the GPUs",
                    {{"--strategy", "fsdp"}},
                    [](Question& tried) { tried.scheme = Scheme::fsdp; }});
  if (!question.offload && !question.workload.adapters)
    list.push_back({"keep the shards in host memory", {{"--strategy", "fsdp"}, {"--offload", ""}}, [](Question& tried) {
                      tried.scheme = Scheme::fsdp;
                      tried.offload = true;
                    }});
  if (question.workload.optimizer != spec::OptimizerKind::adamw_8bit && !question.workload.adapters)
    list.push_back({"an optimizer with 8-bit states", {{"--optimizer", "adamw_8bit"}}, [](Question& tried) {
                      tried.workload.optimizer = spec::OptimizerKind::adamw_8bit;
                    }});
  if (question.workload.mixed_precision && !question.workload.adapters)
    list.push_back({"weights, gradients and optimizer in bfloat16 (less exact)",
                    {{"--dtype", "bfloat16"}, {"--mixed-precision", "no"}},
                    [](Question& tried) {
                      tried.workload.mixed_precision = false;
                      tried.workload.weights = WeightType::bfloat16;
                    }});
  if (!question.workload.adapters) {
    const auto adapt = [](Question& tried, WeightType type) {
      tried.workload.adapters = Adapters{8, 0.05};
      tried.workload.mixed_precision = false;
      tried.workload.weights = type;
      if (tried.offload) tried.offload = false;
    };
    list.push_back({"train low-rank adapters instead of the weights",
                    {{"--lora", "8"}, {"--dtype", "bfloat16"}},
                    [adapt](Question& tried) { adapt(tried, WeightType::bfloat16); }});
    list.push_back({"train low-rank adapters over weights in 4 bits",
                    {{"--lora", "8"}, {"--dtype", "int4"}},
                    [adapt](Question& tried) { adapt(tried, WeightType::int4); }});
  }
  return list;
}

std::vector<Candidate> inference_candidates(const Question& question) {
  std::vector<Candidate> list;
  add_allocator(list, question);
  const std::int64_t batch = question.micro_batch.value_or(question.workload.micro_batch);
  if (batch > 1)
    add_halved(list, question, "at most", "--batch", batch, 1,
               [](Question& tried, std::int64_t value) { tried.micro_batch = value; });
  add_sequence(list, question);
  if (question.map || question.scheme)
    list.push_back({"let muster lay the layers over all GPUs",
                    {{"--device-map", "balanced"}, {"--planner", "optimal"}, {"--strategy", "auto"}},
                    [](Question& tried) {
                      tried.map = spec::DeviceMap{spec::MapRule::balanced};
                      tried.planner = Planner::optimal;
                      tried.scheme.reset();
                    }});
  for (const auto& [type, word] :
       {std::pair{WeightType::bfloat16, "bfloat16"}, {WeightType::int8, "int8"}, {WeightType::int4, "int4"}})
    if (bits(type) < bits(question.workload.weights))
      list.push_back({fmt::format("hold the weights in {} bits", bits(type)),
                      {{"--dtype", word}},
                      [type = type](Question& tried) { tried.workload.weights = type; }});
  if (!question.cpu_limit && question.planner == Planner::optimal && !question.devices.empty()) {
    // Room for what the GPUs lack, whatever the split: the whole model.
    const std::int64_t room = weigh(question.model->shape, question.workload.weights).parameter_bytes / (1 << 30) + 1;
    list.push_back({"lay what the GPUs cannot hold in host memory (slow)",
                    {{"--cpu-memory", fmt::format("{}GiB", room)}},
                    [room](Question& tried) { tried.cpu_limit = room << 30; }});
  }
  return list;
}

}  // namespace

std::vector<Remedy> find_remedies(const Question& question) {
  std::vector<Remedy> remedies;
  const auto candidates =
      question.workload.work == Work::training ? training_candidates(question) : inference_candidates(question);
  for (const Candidate& candidate : candidates) {
    Question tried = question;
    candidate.apply(tried);
    const auto plan = plan_once(tried);
    if (!plan || !plan->fits()) continue;
    std::int64_t peak = 0;
    for (const RankPlan& rank : plan->ranks) peak = std::max(peak, rank.memory.peak());
    remedies.push_back({candidate.change, candidate.options, peak});
  }
  return remedies;
}

}  // namespace muster::plan

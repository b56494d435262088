// What would make a refused question fit. Every candidate is planned like the question itself; those that fit stay.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>

#include "base/text.hpp"
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

// The fewest of the GPUs that were not chosen that make it fit.
void add_spare_gpus(std::vector<Candidate>& list, const Question& question) {
  for (std::size_t more = 1; more <= question.spare.size(); ++more) {
    const auto add = [more](Question& tried) {
      tried.devices.insert(tried.devices.end(), tried.spare.begin(),
                           tried.spare.begin() + static_cast<std::ptrdiff_t>(more));
      std::ranges::sort(tried.devices, {}, &PlanDevice::number);
    };
    Question tried = question;
    add(tried);
    if (!fits(tried)) continue;
    std::vector<std::string> numbers;
    for (const PlanDevice& device : tried.devices) numbers.push_back(std::to_string(device.number));
    list.push_back({fmt::format("{} GPUs instead of {}", tried.devices.size(), question.devices.size()),
                    {{"--gpu-ids", join(numbers, ",")}, {"--num-gpus", std::to_string(tried.devices.size())}},
                    add});
    return;
  }
}

// The fewest hosts like this one, doubling, over which shards fit.
void add_hosts(std::vector<Candidate>& list, const Question& question) {
  for (std::int64_t hosts = question.hosts * 2; hosts <= 64; hosts *= 2) {
    const auto add = [hosts](Question& tried) {
      tried.hosts = hosts;
      tried.scheme = Scheme::fsdp;
    };
    Question tried = question;
    add(tried);
    if (!fits(tried)) continue;
    list.push_back({fmt::format("{} hosts like this one", hosts),
                    {{"--nodes", std::to_string(hosts)}, {"--strategy", "fsdp"}},
                    add});
    return;
  }
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
  add_spare_gpus(list, question);
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
  add_hosts(list, question);
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
  add_spare_gpus(list, question);
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

namespace {

constexpr std::size_t enough = 4;  // remedies a reader looks at

std::optional<Remedy> try_changes(const Question& question, std::span<const Candidate* const> changes) {
  Question tried = question;
  Remedy remedy;
  for (const Candidate* change : changes) {
    change->apply(tried);
    remedy.change += (remedy.change.empty() ? "" : "; ") + change->change;
    for (const OptionChange& option : change->options) {
      std::erase_if(remedy.options, [&](const OptionChange& earlier) { return earlier.option == option.option; });
      remedy.options.push_back(option);
    }
  }
  const auto plan = plan_once(tried);
  if (!plan || !plan->fits()) return std::nullopt;
  for (const RankPlan& rank : plan->ranks) remedy.peak = std::max(remedy.peak, rank.memory.peak());
  return remedy;
}

bool contradict(const Candidate& a, const Candidate& b) {
  for (const OptionChange& left : a.options)
    for (const OptionChange& right : b.options)
      if (left.option == right.option && left.value != right.value) return true;
  return false;
}

}  // namespace

// Single changes first; where fewer than two fit, pairs of them.
std::vector<Remedy> find_remedies(const Question& asked) {
  Question question = asked;
  question.advise = false;
  std::vector<Remedy> remedies;
  const auto candidates =
      question.workload.work == Work::training ? training_candidates(question) : inference_candidates(question);
  std::vector<const Candidate*> short_alone;
  for (const Candidate& candidate : candidates) {
    if (remedies.size() == enough) return remedies;
    const Candidate* const single[] = {&candidate};
    if (auto remedy = try_changes(question, single))
      remedies.push_back(std::move(*remedy));
    else
      short_alone.push_back(&candidate);
  }
  for (std::size_t i = 0; i < short_alone.size() && remedies.size() < 2; ++i)
    for (std::size_t j = i + 1; j < short_alone.size() && remedies.size() < 2; ++j) {
      if (contradict(*short_alone[i], *short_alone[j])) continue;
      const Candidate* const pair[] = {short_alone[i], short_alone[j]};
      if (auto remedy = try_changes(question, pair)) remedies.push_back(std::move(*remedy));
    }
  return remedies;
}

}  // namespace muster::plan

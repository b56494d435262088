#include "plan/round_phases.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/count_of.hpp"

namespace muster::plan {
namespace {

constexpr std::int64_t usual_most_side_by_side = 512;

class Phases {
 public:
  Phases(const Question& question, const RoundQuestion& round, const Plan& plan)
      : question_(question), round_(round), plan_(plan), fullest_(fullest(plan)), workload_(question.workload) {
    workload_.work = Work::inference;
    if (workload_.mixed_precision) workload_.weights = WeightType::bfloat16;
    workload_.mixed_precision = false;
    workload_.adapters.reset();
    weight_ = weigh(question.model->shape, workload_);
  }

  const RankPlan& rank() const { return fullest_; }
  // Answers of a round that a rank has.
  std::int64_t own() const { return (round_.answers + plan_.layout.world - 1) / plan_.layout.world; }
  std::int64_t sampling(std::int64_t side_by_side) const { return with_pass(side_by_side, round_.most_tokens); }
  std::int64_t scoring() const { return with_pass(plan_.workload.micro_batch, 0); }
  bool fits(std::int64_t side_by_side) const { return sampling(side_by_side) <= fullest_.limit; }

  // The most that fit; 0: not even one.
  std::int64_t most_side_by_side() const {
    std::int64_t below = 0, most = std::min(own(), usual_most_side_by_side);
    while (below < most) {
      const std::int64_t tried = (below + most + 1) / 2;
      if (fits(tried))
        below = tried;
      else
        most = tried - 1;
    }
    return below;
  }

 private:
  static const RankPlan& fullest(const Plan& plan) {
    return *std::ranges::max_element(plan.ranks, {},
                                     [](const RankPlan& rank) { return rank.memory.total() - rank.limit; });
  }

  std::int64_t with_pass(std::int64_t batch, std::int64_t new_tokens) const {
    Workload pass = workload_;
    pass.micro_batch = batch;
    pass.new_tokens = new_tokens;
    const DeviceMemory inference = device_memory(question_.model->config, weight_, pass, Layout{},
                                                 whole_model(question_.model->config, weight_), question_.constants);
    std::int64_t bytes = fullest_.memory.total();
    for (const Component passing : {Component::activations, Component::logits, Component::slack})
      bytes += inference[passing] - fullest_.memory[passing];
    // What is scored is not kept for tokens to come.
    return new_tokens > 0 ? bytes + inference[Component::kv_cache] : bytes;
  }

  const Question& question_;
  const RoundQuestion& round_;
  const Plan& plan_;
  const RankPlan& fullest_;
  Workload workload_;
  ModelWeight weight_;
};

std::string gibibytes(std::int64_t bytes) { return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30)); }

// Changes that make room for sampling; each was tried.
std::vector<Remedy> remedies(const Question& question, const RoundQuestion& round, const Phases& phases,
                             std::int64_t side_by_side) {
  std::vector<Remedy> found;
  if (const std::int64_t most = phases.most_side_by_side(); most > 0)
    found.push_back({fmt::format("write {} side by side", count_of(most, "answer")),
                     {{"generation.batch_size", std::to_string(most)}},
                     phases.sampling(most),
                     0,
                     {}});
  if (question.offload || question.devices.empty()) return found;
  Question offloading = question;
  offloading.scheme = Scheme::fsdp;
  offloading.offload = true;
  const auto made = make_plan(offloading);
  if (!made || !made->fits()) return found;
  const Phases then(offloading, round, *made);
  if (then.fits(side_by_side))
    found.push_back({"keep the optimizer's state in host memory",
                     {{"distributed.strategy", "fsdp"}, {"distributed.fsdp_cpu_offload", "true"}},
                     then.sampling(side_by_side),
                     made->ranks.front().memory.host,
                     {}});
  return found;
}

}  // namespace

void add_phases(const Question& question, const RoundQuestion& round, Plan& plan) {
  if (!plan.fits() || plan.ranks.empty()) return;
  const Phases phases(question, round, plan);
  const std::int64_t asked = round.side_by_side.value_or(phases.most_side_by_side());
  const std::int64_t side_by_side = std::max<std::int64_t>(std::min(asked, phases.own()), 1);
  plan.side_by_side = side_by_side;
  const std::int64_t limit = phases.rank().limit;
  plan.phases = {{"sampling", phases.sampling(side_by_side), limit}};
  if (round.scores) plan.phases.push_back({"scoring", phases.scoring(), limit});
  plan.phases.push_back({"training", phases.rank().memory.total(), limit});
  if (phases.fits(side_by_side)) return;
  const std::int64_t needed = phases.sampling(side_by_side);
  plan.refusal = Refusal{fmt::format("sampling {} side by side takes {}, and {} are there", count_of(side_by_side, "answer"),
                                     gibibytes(needed), gibibytes(limit)),
                         needed - limit, remedies(question, round, phases, side_by_side)};
}

}  // namespace muster::plan

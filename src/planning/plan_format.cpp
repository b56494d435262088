#include "base/count_of.hpp"
#include "planning/plan_format.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>

namespace muster::planning {

std::string_view spoken(plan::Component component) {
  constexpr std::array<std::string_view, plan::component_count> words{
      "weights",   "scales, 16-bit parts", "buffers", "master weights", "gradients",      "optimizer",
      "adapters",  "reference",            "reward model", "critic",         "activations",    "logits",
      "KV cache",  "gathered units",
      "gradient buckets", "workspace", "allocator slack", "NCCL", "CUDA context"};
  static_assert(words.back() == "CUDA context", "every component has words");
  return words[static_cast<std::size_t>(component)];
}

namespace {

std::string short_count(std::int64_t count) {
  const auto number = static_cast<double>(count);
  if (count >= 1'000'000'000'000) return fmt::format("{:.1f}T", number / 1e12);
  if (count >= 1'000'000'000) return fmt::format("{:.1f}B", number / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.0f}M", number / 1e6);
  return std::to_string(count);
}

std::string types(const plan::Workload& workload) {
  if (workload.packed)
    return fmt::format("{} weights computed in {}", weight_name(workload), name(workload.weights));
  if (!workload.mixed_precision) return std::string(name(workload.weights));
  return workload.implementation == plan::Implementation::muster ? "bfloat16 over float32 masters"
                                                                 : "float32, computed in bfloat16";
}

// A folder's name says more than its path, and more than config.json.
std::string model_name(const std::string& written) {
  std::filesystem::path path(written);
  if (path.filename() == "config.json") path = path.parent_path();
  if (path.filename().empty()) path = path.parent_path();
  return path.has_filename() ? path.filename().string() : written;
}

}  // namespace

std::string headline(const plan::Question& question, const plan::Plan& plan) {
  const plan::Workload& work = plan.workload;
  const bool training = work.work == plan::Work::training;
  const std::string model = question.model->typical ? "a typical model" : model_name(question.model->name);
  std::string text = fmt::format("{}, {} parameters, {} in {}, {} of {}", model,
                                 short_count(plan.parameters), training ? "training" : "inference", types(work),
                                 count_of(work.micro_batch, plan::unit_word(work)), count_of(work.sequence, "token"));
  if (work.adapters) text += fmt::format(", LoRA rank {}", work.adapters->block.ranks.largest());
  if (work.recomputation == spec::Recomputation::full) text += ", activations recomputed";
  if (work.recomputation == spec::Recomputation::selective) text += ", norms and gates recomputed";
  text += work.implementation == plan::Implementation::muster ? ", muster's engine" : ", transformers";
  return text;
}

std::string device_name(const plan::Question& question, const plan::RankPlan& rank) {
  if (!rank.gpu) return "CPU";
  if (question.hosts > 1) return fmt::format("host {}, GPU {}", rank.host, rank.gpu->number);
  return fmt::format("GPU {}", rank.gpu->number);
}

}  // namespace muster::planning

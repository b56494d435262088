#include "job/train/micro_batch_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <system_error>

#include "system/files.hpp"
#include "system/sha256.hpp"
#include "json/fields.hpp"

namespace muster::job {
namespace {

constexpr std::chrono::days kept_for(30);

// Everything that memory depends on, except the size of passes and what is recomputed beyond what was requested.
std::string text_of(const TrainPlan& plan, const wire::TrainTask& task) {
  const spec::ModelConfig& model = plan.question.model->config;
  const plan::RankPlan& first = plan.plan.ranks.front();
  std::set<int> gpus;
  for (const plan::RankPlan& rank : plan.plan.ranks)
    if (rank.gpu) gpus.insert(rank.gpu->number);
  nlohmann::ordered_json facts = {
      {"model",
       {static_cast<int>(model.family), model.vocabulary, model.hidden, model.intermediate, model.layers, model.heads,
        model.kv_heads, model.head_size, model.tied}},
      {"compute", to_json(task.compute)},
      {"state", to_json(task.state)},
      {"exact", task.exact},
      {"deterministic", task.deterministic},
      {"attention", to_json(task.attention)},
      {"optimizer", to_json(task.optimizer.kind)},
      {"sharding", to_json(task.sharding)},
      {"sequence_length", task.sequence_length * plan.question.workload.together},
      {"recompute", to_json(plan.question.workload.recomputation)},
      {"ranks", plan.plan.ranks.size()},
      {"gpus", gpus.size()},
      {"gpu", first.gpu ? first.gpu->name : ""},
      {"gibibytes", first.limit >> 30}};
  if (model.score) facts["score"] = model.score->outputs;
  return facts.dump();
}

std::filesystem::path path_of(const std::filesystem::path& folder, const TrainPlan& plan, const wire::TrainTask& task) {
  const std::string text = text_of(plan, task);
  Sha256 digest;
  digest.add(std::as_bytes(std::span(text)));
  return folder / (digest.finish() + ".json");
}

// With the task's passes. A plan's all have one size: if the task's last one is smaller, the plan stays as it is.
void replan(TrainPlan& plan, const wire::TrainTask& task) {
  const std::int64_t per_rank = plan.plan.workload.micro_batch * plan.plan.workload.accumulation;
  if (per_rank % task.micro_batch != 0) return;
  plan::Question question = plan.question;
  question.micro_batch = task.micro_batch;
  question.workload.recomputation = task.recompute;
  question.scheme = plan.plan.layout.scheme;
  question.sharding = plan.plan.layout.sharding;
  question.offload = plan.plan.layout.offload;
  auto made = plan::make_plan(question);
  if (!made || !made->fits()) return;
  made->reasons.push_back(plan.plan.reasons.back());  // the type that is computed in
  plan.plan = std::move(*made);
}

}  // namespace

std::optional<KnownPass> KnownPasses::find(const TrainPlan& plan, const wire::TrainTask& task) const {
  const std::filesystem::path path = path_of(folder_, plan, task);
  std::error_code problem;
  const auto written = std::filesystem::last_write_time(path, problem);
  if (problem || std::filesystem::file_time_type::clock::now() - written > kept_for) return std::nullopt;
  const auto text = read_file(path);
  if (!text) return std::nullopt;
  const auto pass = parse_fields<KnownPass>(*text, path.string());
  return pass && pass->micro_batch >= 1 ? std::optional(*pass) : std::nullopt;
}

void KnownPasses::keep(const TrainPlan& plan, const wire::TrainTask& task, const KnownPass& pass) const {
  std::error_code unimportant;
  std::filesystem::create_directories(folder_, unimportant);
  auto json = to_json(pass);
  json["of"] = text_of(plan, task);
  static_cast<void>(write_file_atomically(path_of(folder_, plan, task), as_line(json) + "\n"));
}

void begin_with_known_pass(const KnownPasses& known, TrainPlan& plan, wire::TrainTask& task) {
  const auto pass = known.find(plan, task);
  if (!pass || (pass->micro_batch >= task.micro_batch && pass->recompute <= task.recompute)) return;
  task.micro_batch = std::min(pass->micro_batch, task.micro_batch);
  task.recompute = std::max(pass->recompute, task.recompute);
  replan(plan, task);
  plan.notes.push_back(
      fmt::format("an earlier run like this one ran out of memory: it begins with {} sequence{} a pass{}; "
                  "training.micro_batch_size says otherwise",
                  task.micro_batch, task.micro_batch == 1 ? "" : "s",
                  task.recompute == spec::Recomputation::none ? "" : ", recomputed"));
}

}  // namespace muster::job

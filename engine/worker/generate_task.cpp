// Answers and scores requests with one model, on one device or split by layers over several ranks.
#include <fmt/format.h>

#include <ATen/Parallel.h>

#include "generate/local_runner.hpp"
#include "worker/answering.hpp"
#include "worker/pipeline.hpp"
#include "worker/scoring.hpp"
#include "worker/task.hpp"

namespace muster::worker {
namespace {

using wire::GenerateTask;

constexpr std::int64_t block_tokens = 64;

Result<model::CacheShape> cache_shape(const GenerateTask& task, const LoadedModel& loaded) {
  const std::int64_t longest = (loaded.longest(task) + block_tokens - 1) / block_tokens;
  const std::int64_t blocks = task.cache_blocks > 0 ? task.cache_blocks : task.sequences() * longest;
  if (blocks < longest)
    return Error{Error::Kind::refused,
                 fmt::format("the cache has {} blocks of {} tokens, and a sequence of {} tokens needs {}", blocks,
                             block_tokens, loaded.longest(task), longest),
                 "lower generation.sequence_length, or leave more memory for the cache"};
  return loaded.model->cache_shape(blocks, block_tokens);
}

// Scores are at temperature 1, whatever answers would be drawn at.
tensor::SamplingRules sampling_rules(const GenerateTask& task) {
  if (task.score) return {};
  return {.temperature = task.temperature,
          .top_k = task.top_k,
          .top_p = task.top_p,
          .min_p = task.min_p,
          .repetition_penalty = task.repetition_penalty,
          .log_probabilities = task.log_probabilities};
}

bool is_split(const GenerateTask& task) { return task.stages.size() > 1; }

HeldParts held_parts(const GenerateTask& task, const Job& job) {
  HeldParts parts{std::nullopt, task.in_host_memory, task.on_disk};
  if (is_split(task)) parts.layers = Pipeline::layers_of(job, task.stages);
  return parts;
}

Result<std::unique_ptr<Pipeline>> join_pipeline(const GenerateTask& task, Job& job) {
  if (!is_split(task)) return std::unique_ptr<Pipeline>();
  return Pipeline::join(job, task.stages);
}

Result<void> answer_or_score(const GenerateTask& task, Job& job, const LoadedModel& loaded,
                             generate::StepRunner& runner, const model::CacheShape& cache) {
  generate::BlockPool pool(cache.blocks, cache.block_tokens);
  if (task.score) return Scoring(task, job, loaded, runner, pool).run();
  return Answering(task, job, loaded, runner, pool).run();
}

}  // namespace

Result<void> run_task(const GenerateTask& task, Job& job) {
  const at::NoGradGuard forward_only;
  // muster's own kernels have their own threads; two teams on the same cores would only wait for each other.
  if (job.device.is_cpu()) at::set_num_threads(1);
  const auto loaded = load_model(task.model, held_parts(task, job), job);
  if (!loaded) return loaded.error();
  // After loading, which takes each stage a different time.
  const auto pipeline = join_pipeline(task, job);
  if (!pipeline) return pipeline.error();
  Pipeline* const stages = pipeline->get();
  const auto shape = cache_shape(task, **loaded);
  if (!shape) return shape.error();
  model::CausalModel& model = *(*loaded)->model;
  tensor::DeviceOps& ops = (*loaded)->ops;
  model::KeyValueCache cache(*shape);
  const tensor::SamplingRules rules = sampling_rules(task);
  job.ready();
  if (stages == nullptr) {
    generate::LocalRunner runner(model, ops, cache, rules, (*loaded)->longest(task));
    return answer_or_score(task, job, **loaded, runner, *shape);
  }
  if (!stages->is_first()) {
    stages->serve(model, ops, cache, rules);
    return {};
  }
  auto done = answer_or_score(task, job, **loaded, stages->start(model, ops, cache, rules), *shape);
  if (done) stages->end();
  return done;
}

}  // namespace muster::worker

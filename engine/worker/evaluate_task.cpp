// Measures how good a model is: loads it, joins the other ranks, and takes a share of samples and questions.
#include <fmt/format.h>

#include <ATen/Parallel.h>

#include "json/fields.hpp"
#include "train/evaluation.hpp"
#include "train/objectives/supervised.hpp"
#include "worker/loaded_model.hpp"
#include "worker/task.hpp"

namespace muster::worker {
namespace {

Error no_number(const train::EvaluationResult& result) {
  return {Error::Kind::failed,
          fmt::format("the loss of {} of {} tokens is not a number: the model's numbers are too large for its type, or "
                      "its weights are damaged",
                      result.bad, result.all.tokens),
          "--dtype float32"};
}

}  // namespace

Result<void> run_task(const wire::EvaluateTask& task, Job& job) {
  const at::NoGradGuard forward_only;
  // muster's own kernels have their own threads; two teams on the same cores would only wait for each other.
  if (job.device.is_cpu()) at::set_num_threads(1);
  const auto loaded = load_model(task.model, {}, job);
  if (!loaded) return loaded.error();
  // After loading, which takes each rank a different time.
  const auto ranks = job.join_ranks();
  if (!ranks) return ranks.error();
  auto evaluation = train::Evaluation::make({task.data, task.questions, task.micro_batch, task.question_batch},
                                            {*(*loaded)->text, *(*loaded)->model, (*loaded)->ops, **ranks,
                                             [&job](const wire::EventBody& event) { job.channel.tell(event); }},
                                            train::make_supervised());
  if (!evaluation) return evaluation.error();
  job.ready();
  const train::EvaluationResult result = evaluation->measure();
  if (result.bad > 0) return no_number(result);
  for (const train::GivenAnswer& answer : result.answers)
    job.channel.tell(
        wire::TaskResult{static_cast<std::int64_t>(answer.question), print_fields(evaluation->answered(answer))});
  if ((*ranks)->rank() == 0) job.channel.tell(result.all);
  return {};
}

}  // namespace muster::worker

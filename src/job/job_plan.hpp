// What is known of a job before anything starts, and the steps that train, generate and evaluate plan one with.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "gpu/selection.hpp"
#include "host/device_choice.hpp"
#include "host/host.hpp"
#include "job/worker_run.hpp"
#include "plan/plan.hpp"
#include "planning/plan_question.hpp"
#include "spec/readers.hpp"
#include "spec/run_spec.hpp"

namespace muster::job {

// A plan that does not fit is a JobPlan whose plan has a refusal.
struct JobPlan {
  plan::Question question;
  plan::Plan plan;
  WorkerJob job;
  std::string device;              // "cpu", "2 CPU ranks", "4 GPUs (0,1,2,3) NVIDIA H200"
  std::vector<std::string> notes;  // what the user should know
};

// The question of a job of muster's own engine on these devices. request.spec.distributed need not name them.
Result<plan::Question> ask(host::Host& host, planning::PlanRequest request, const host::ChosenDevices& chosen);

// Settings that are for training alone have no part in inference.
planning::PlanRequest inference_request(spec::RunSpec settings);

// Refuses a model without weights, unless they are random. remedy: what to do then.
Result<void> check_weights(const plan::Question& question, const spec::ModelSpec& model, std::string_view remedy);

// Refuses a classifier, from which no answers come and whose tokens have no probabilities.
Result<void> check_predicts_tokens(const spec::ModelDescription& model);

// The GPUs of the ranks, each once, in the order of the ranks; absent: CPU ranks.
std::optional<gpu::SelectionRequest> gpus_of(const plan::Plan& plan);

// "4 GPUs (0,1,2,3) NVIDIA H200", "2 CPU ranks", or the words for one CPU rank.
std::string device_words(const plan::Plan& plan, std::size_t ranks, std::string_view one_cpu_rank);

// Why it does not fit, and what the user of the command would type to make it fit: that, where nothing is known.
Error refusal_of(const plan::Plan& plan, spec::Command command, std::string_view otherwise);

}  // namespace muster::job

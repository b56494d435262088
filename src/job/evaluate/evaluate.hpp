// muster evaluate, the controlling side: the request becomes a plan that fits, data and questions that are
// prepared, then one job of workers that each take a share.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "data/prepare_data.hpp"
#include "host/device_choice.hpp"
#include "host/host.hpp"
#include "job/job_progress.hpp"
#include "job/job_plan.hpp"
#include "plan/plan.hpp"
#include "spec/resolve.hpp"
#include "wire/evaluate_task.hpp"
#include "wire/train_event.hpp"

namespace muster::job {

struct EvaluateRequest {
  spec::ResolvedSpec settings;           // data.eval_path is evaluated, else data.path
  bool exact_match = false;              // the rows' own answers are right answers
  std::optional<std::string> questions;  // a file of them
  host::Purpose purpose = host::Purpose::compute;
};

// Everything that is known before anything starts.
struct EvaluatePlan : JobPlan {
  std::string data;  // as the user calls it; empty: questions alone
  std::optional<data::SampleCounts> counts;
  std::int64_t questions = 0;

  const wire::EvaluateTask& task() const { return std::get<wire::EvaluateTask>(job.assignment.task); }
};

// Settings checked, device chosen, model read, data and questions prepared, memory counted; nothing is taken or
// started. A plan that does not fit is an EvaluatePlan with a refusal. progress: while data is prepared.
Result<EvaluatePlan> plan_evaluation(host::Host& host, const EvaluateRequest& request, const data::OnPreparation& progress);
// Why it does not fit, and which of this command's options would make it fit.
Error refusal_of(const EvaluatePlan& plan);

struct EvaluateListener {
  std::function<void(const std::string&)> note;
  std::function<void(const JobProgress&)> progress = {};
};

struct EvaluateSummary {
  int exit_code = 0;  // 128 + signal where it was interrupted
  wire::Evaluated evaluated;
  std::vector<wire::AnsweredQuestion> answers;  // in the order of the questions
};
// e to the mean loss.
double perplexity(double loss);
// Whether two answers are the same, apart from white space around them.
bool is_right(const wire::AnsweredQuestion& question);

// For people: a line each for loss and exact match, and some answers.
std::string summary_text(const EvaluatePlan& plan, const EvaluateSummary& summary);
// For programs. It contains nothing that depends on how the work was laid over ranks.
nlohmann::ordered_json summary_json(const EvaluatePlan& plan, const EvaluateSummary& summary, bool with_answers);

// Runs a plan that fits. To be called while this process has one thread.
Result<EvaluateSummary> evaluate(host::Host& host, const EvaluatePlan& plan, const EvaluateListener& listener);

}  // namespace muster::job

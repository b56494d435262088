#include "job/evaluate/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/count_of.hpp"
#include "base/text.hpp"
#include "json/fields.hpp"

namespace muster::job {
namespace {

constexpr std::size_t shown_answers = 3;

class EvaluateJob final : public WorkerListener {
 public:
  EvaluateJob(const EvaluatePlan& plan, const EvaluateListener& listener, EvaluateSummary& summary)
      : plan_(plan), listener_(listener), summary_(summary) {
    summary_.answers.resize(static_cast<std::size_t>(plan.questions));
  }

  Result<void> on_event(const wire::Event& event) override {
    if (const auto* told = std::get_if<wire::Progress>(&event.body); told && listener_.progress)
      listener_.progress(progress_.heard(*told, event.rank));
    if (const auto* told = std::get_if<wire::TaskResult>(&event.body)) return take(*told);
    if (const auto* told = std::get_if<wire::Evaluated>(&event.body)) {
      summary_.evaluated = *told;
      told_ = true;
    }
    return {};
  }

  // For a job that ended well.
  bool told_everything() const { return told_ && answered_ == plan_.questions; }

 private:
  Result<void> take(const wire::TaskResult& result) {
    auto answer = parse_fields<wire::AnsweredQuestion>(result.row, "an answer");
    if (!answer) return answer.error();
    if (result.index < 0 || result.index >= plan_.questions)
      return Error{Error::Kind::failed, fmt::format("an answer came to question {}, which nobody asked", result.index),
                   "report this as a bug of muster"};
    summary_.answers[static_cast<std::size_t>(result.index)] = std::move(*answer);
    ++answered_;
    return {};
  }

  const EvaluatePlan& plan_;
  const EvaluateListener& listener_;
  EvaluateSummary& summary_;
  RankProgress progress_;
  bool told_ = false;
  std::int64_t answered_ = 0;
};

std::string sample_lines(const EvaluateSummary& summary) {
  std::string text;
  for (std::size_t i = 0; i < std::min(shown_answers, summary.answers.size()); ++i) {
    const wire::AnsweredQuestion& answer = summary.answers[i];
    text += fmt::format("  {} → {}{}\n", answer.prompt, answer.answer,
                        is_right(answer) ? "" : fmt::format(" (right: {})", answer.expected));
  }
  return text;
}

}  // namespace

double perplexity(double loss) { return std::exp(loss); }

bool is_right(const wire::AnsweredQuestion& question) { return trim(question.answer) == trim(question.expected); }

std::string summary_text(const EvaluatePlan& plan, const EvaluateSummary& summary) {
  const wire::Evaluated& found = summary.evaluated;
  std::string text;
  if (found.loss)
    text += fmt::format("loss {:.6f}, perplexity {:.4f} over {} of {} of {}\n", *found.loss, perplexity(*found.loss),
                        count_of(found.tokens, "token"), count_of(plan.counts->samples, "sample"), plan.data);
  if (found.questions.value_or(0) > 0)
    text += fmt::format("exact match {:.2f} %: {} of {} right\n{}",
                        100.0 * static_cast<double>(*found.correct) / static_cast<double>(*found.questions),
                        *found.correct, count_of(*found.questions, "question"), sample_lines(summary));
  return text;
}

nlohmann::ordered_json summary_json(const EvaluatePlan& plan, const EvaluateSummary& summary, bool with_answers) {
  const wire::Evaluated& found = summary.evaluated;
  nlohmann::ordered_json json;
  json["model"] = plan.task().model.name;
  json["dtype"] = to_json(plan.task().model.dtype);
  if (found.loss) {
    json["data"] = plan.data;
    json["loss"] = *found.loss;
    json["perplexity"] = perplexity(*found.loss);
    json["tokens"] = found.tokens;
    json["samples"] = plan.counts->samples;
    json["cut_samples"] = plan.counts->cut;
    json["dropped_samples"] = plan.counts->dropped;
  }
  if (found.questions.value_or(0) > 0) {
    json["exact_match"] = static_cast<double>(*found.correct) / static_cast<double>(*found.questions);
    json["correct"] = *found.correct;
    json["questions"] = *found.questions;
  }
  if (!with_answers) return json;
  json["answers"] = nlohmann::ordered_json::array();
  for (const wire::AnsweredQuestion& answer : summary.answers)
    json["answers"].push_back({{"prompt", answer.prompt},
                               {"answer", answer.answer},
                               {"expected", answer.expected},
                               {"right", is_right(answer)}});
  return json;
}

Result<EvaluateSummary> evaluate(host::Host& host, const EvaluatePlan& plan, const EvaluateListener& listener) {
  EvaluateSummary summary;
  EvaluateJob job(plan, listener, summary);
  const auto code = run_workers(host, plan.job, job, listener.note);
  if (!code) return code.error();
  summary.exit_code = *code;
  if (*code == 0 && !job.told_everything())
    return Error{Error::Kind::failed, "the ranks ended without telling everything", "report this as a bug of muster"};
  return summary;
}

}  // namespace muster::job

#include "train/evaluation.hpp"

#include <fmt/format.h>

#include <chrono>

#include "train/exact_loss.hpp"
#include "train/extremes.hpp"
#include "train/memory_use.hpp"
#include "train/progress_sign.hpp"
#include "train/rollouts/episode_evaluation.hpp"

namespace muster::train {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Evaluation::Evaluation(EvaluationContext place) : place_(std::move(place)) {}
Evaluation::Evaluation(Evaluation&&) noexcept = default;
Evaluation::~Evaluation() = default;

Result<Evaluation> Evaluation::make(const EvaluationSource& source, EvaluationContext place,
                                    std::unique_ptr<Objective> objective) {
  Evaluation made(std::move(place));
  made.micro_batch_ = source.micro_batch;
  made.together_ = source.together;
  if (source.data) {
    auto opened = data::Dataset::open(*source.data, data::Verification::structure);
    if (!opened) return opened.error();
    const std::int64_t vocabulary = made.place_.model.config().vocabulary;
    if (opened->counts().token_limit > vocabulary)
      return Error{Error::Kind::bad_input,
                   fmt::format("the data for evaluation has token {}, and the model knows {}",
                               opened->counts().token_limit - 1, vocabulary),
                   "use the model's own tokenizer"};
    made.totals_ = data::totals_of(*opened, source.together);
    made.dataset_.emplace(std::move(*opened));
    made.passes_ = std::make_unique<ObjectivePass>(std::move(objective), made.place_.model, made.place_.ops, true);
  }
  if (source.questions) {
    auto read = read_questions(*source.questions, made.place_.text);
    if (!read) return read.error();
    auto questions = QuestionEvaluation::make(std::move(*read), made.place_.text, made.place_.model,
                                              made.place_.ops, source.question_batch);
    if (!questions) return questions.error();
    made.questions_.emplace(std::move(*questions));
  }
  return made;
}

wire::AnsweredQuestion Evaluation::answered(const GivenAnswer& answer) const {
  const Question& question = questions()[answer.question];
  return {question.prompt, answer.text, *question.answer};
}

std::optional<at::Tensor> Evaluation::visit(UnitPart part, const at::Tensor& sums, const PassMeasure& measure) {
  const bool done = visit_dataset({*dataset_, together_, micro_batch_, "measuring the loss", part},
                                  {place_.model, place_.ops.device, place_.ranks, place_.tell},
                                  [&](const data::MicroBatch& batch) { sums.add_(measure(batch)); });
  const at::Tensor all = at::cat({sums, at::full({1}, done ? 0 : 1, sums.options())});
  place_.ranks.all_reduce(all);
  const std::int64_t last = sums.numel();
  const auto out_of_memory = all[last].item<std::int64_t>();
  place_.ranks.check();
  return out_of_memory == 0 ? std::optional(all.narrow(0, 0, last)) : std::nullopt;
}

std::optional<at::Tensor> Evaluation::visit_all() {
  StepFacts facts{totals_, 0};
  const bool scores_first = passes_->objective().scores_first();
  if (scores_first) {
    const at::Tensor none = passes_->no_sums().narrow(0, 0, loss_parts);
    const auto scored = visit(UnitPart::second, none, [&](const auto& batch) { return passes_->score(batch, facts); });
    if (!scored) return std::nullopt;
    facts.scored_mean = loss_of(*scored).mean(totals_.units);
  }
  return visit(scores_first ? UnitPart::first : UnitPart::whole, passes_->no_sums(),
               [&](const auto& batch) { return passes_->measure(batch, facts); });
}

// Smaller passes change no bit of it.
at::Tensor Evaluation::measure_sums() {
  if (!dataset_) return at::empty({0}, at::TensorOptions().dtype(at::kLong).device(place_.ops.device));
  for (;;) {
    if (const auto sums = visit_all()) return *sums;
    TORCH_CHECK_WITH(OutOfMemoryError, micro_batch_ > 1, "one sample of the evaluation at a time runs out of memory");
    micro_batch_ = (micro_batch_ + 1) / 2;
    release_cached_memory(place_.ops.device);
  }
}

// sums: on the host.
void Evaluation::take_sums(const at::Tensor& sums, EvaluationResult& result) const {
  if (!dataset_ || totals_.trained_tokens == 0) return;
  const auto names = passes_->objective().metrics();
  const std::int64_t normalizer = passes_->objective().normalizer(totals_);
  result.all.tokens = totals_.trained_tokens;
  const std::size_t summed = names.size() - passes_->objective().extremes().size();
  for (std::size_t i = 0; i < summed; ++i) {
    const LossSum sum = loss_of(sums.narrow(0, static_cast<std::int64_t>(i) * loss_parts, loss_parts));
    const double mean = sum.bad > 0 ? std::numeric_limits<double>::quiet_NaN() : sum.mean(normalizer);
    if (i == 0) {
      result.bad = sum.bad;
      result.all.loss = mean;
      continue;
    }
    if (!result.all.metrics) result.all.metrics.emplace();
    result.all.metrics->push_back({"eval_" + std::string(names[i]), mean});
  }
}

void Evaluation::take_extremes(EvaluationResult& result) const {
  if (!dataset_) return;
  const std::vector<double> found = extremes_over_ranks(*passes_, place_.ranks);
  if (!result.all.metrics) return;
  const auto names = passes_->objective().metrics().last(found.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    result.all.metrics->push_back({"eval_" + std::string(names[i]), found[i]});
}

EvaluationResult Evaluation::measure() {
  const auto began = Clock::now();
  EvaluationResult result;
  const at::Tensor sums = measure_sums();
  std::int64_t right = 0;
  if (questions_) {
    const auto ranks = static_cast<std::size_t>(place_.ranks.size());
    ProgressSign sign(place_.tell, "answering questions",
                      static_cast<std::int64_t>((questions().size() + ranks - 1) / ranks));
    result.answers = questions_->answer(place_.ranks, [&](std::int64_t done) { sign.give(done); });
    right =
        std::ranges::count_if(result.answers, [&](const GivenAnswer& answer) { return questions_->is_right(answer); });
  }
  const at::Tensor all_right = at::full({1}, right, sums.options());
  place_.ranks.all_reduce(all_right);
  const at::Tensor host = at::cat({sums, all_right}).cpu();
  place_.ranks.check();
  take_sums(host, result);
  take_extremes(result);
  if (questions_) {
    result.all.correct = host[-1].item<std::int64_t>();
    result.all.questions = std::ssize(questions());
  }
  result.all.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return result;
}

void Evaluation::add(std::unique_ptr<EpisodeEvaluation> environment) {
  environments_.push_back(std::move(environment));
}

Result<std::vector<wire::NamedNumber>> Evaluation::play() {
  std::vector<wire::NamedNumber> numbers;
  for (const auto& environment : environments_) {
    const auto ranks = static_cast<std::int64_t>(place_.ranks.size());
    ProgressSign sign(place_.tell, "playing episodes", (environment->episodes() + ranks - 1) / ranks);
    const auto played = environment->play(place_.ranks, [&](std::int64_t done) { sign.give(done); });
    if (!played) return played.error();
    numbers.insert(numbers.end(), played->begin(), played->end());
  }
  return numbers;
}

}  // namespace muster::train

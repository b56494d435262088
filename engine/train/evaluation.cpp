#include "train/evaluation.hpp"

#include <fmt/format.h>

#include <chrono>

#include "data/micro_batch.hpp"
#include "train/abandon_pass.hpp"
#include "train/exact_loss.hpp"
#include "train/memory_use.hpp"
#include "train/progress_sign.hpp"
#include "train/supervised.hpp"

namespace muster::train {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Result<Evaluation> Evaluation::make(const EvaluationSource& source, EvaluationContext place) {
  Evaluation made(std::move(place));
  made.micro_batch_ = source.micro_batch;
  if (source.data) {
    auto opened = data::Dataset::open(*source.data, data::Verification::structure);
    if (!opened) return opened.error();
    const std::int64_t vocabulary = made.place_.model.config().vocabulary;
    if (opened->counts().token_limit > vocabulary)
      return Error{Error::Kind::bad_input,
                   fmt::format("the data for evaluation has token {}, and the model knows {}",
                               opened->counts().token_limit - 1, vocabulary),
                   "use the model's own tokenizer"};
    made.dataset_.emplace(std::move(*opened));
    made.passes_ = std::make_unique<ObjectivePass>(make_supervised(), made.place_.model, made.place_.ops, true);
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
  return {question.prompt, answer.text, question.answer};
}

bool Evaluation::measure_pass(const data::MicroBatch& batch, at::Tensor& sums) {
  model::ParameterAccess& home = place_.model.home();
  if (batch.trained_rows.empty()) {
    stand_by(home, model::PassKind::measure, place_.ops.device);
    return true;
  }
  try {
    home.begin_pass(model::PassKind::measure);  // before anything can go wrong: what is left of it is known
    sums.narrow(0, 0, loss_parts) += passes_->measure(batch);
    return true;
  } catch (const c10::OutOfMemoryError&) {
    // First release what the pass held.
  }
  abandon_pass(home, place_.ops.device);
  return false;
}

at::Tensor Evaluation::measure_passes() {
  at::Tensor sums = at::zeros({loss_parts + 2}, at::TensorOptions().dtype(at::kLong).device(place_.ops.device));
  const std::int64_t stride = place_.ranks.size() * micro_batch_;
  ProgressSign sign(place_.tell, "measuring the loss",
                    (dataset_->size() + place_.ranks.size() - 1) / place_.ranks.size());
  std::int64_t done = 0, tokens = 0;
  bool ran_out = false;
  // As many passes as every other rank has.
  for (std::int64_t all = 0; all < dataset_->size(); all += stride) {
    const std::int64_t first = all + place_.ranks.rank() * micro_batch_;
    std::vector<data::Unit> units;
    for (std::int64_t i = first; i < std::min(first + micro_batch_, dataset_->size()) && !ran_out; ++i)
      units.push_back({static_cast<std::uint32_t>(i)});
    const data::MicroBatch batch = data::make_micro_batch(*dataset_, units);
    if (!measure_pass(batch, sums)) ran_out = true;
    tokens += std::ssize(batch.trained_rows);
    done += std::ssize(units);
    sign.give(done);
  }
  sums[loss_parts] = tokens;
  sums[loss_parts + 1] = static_cast<std::int64_t>(ran_out);
  return sums;
}

// Smaller passes change no bit of it.
at::Tensor Evaluation::measure_loss() {
  if (!dataset_)
    return at::zeros({loss_parts + 1}, at::TensorOptions().dtype(at::kLong).device(place_.ops.device));
  for (;;) {
    const at::Tensor sums = measure_passes();
    place_.ranks.all_reduce(sums);
    const auto out_of_memory = sums[loss_parts + 1].item<std::int64_t>();
    place_.ranks.check();
    if (out_of_memory == 0) return sums.narrow(0, 0, loss_parts + 1);
    TORCH_CHECK_WITH(OutOfMemoryError, micro_batch_ > 1, "one sample of the evaluation at a time runs out of memory");
    micro_batch_ = (micro_batch_ + 1) / 2;
    release_cached_memory(place_.ops.device);
  }
}

EvaluationResult Evaluation::measure() {
  const auto began = Clock::now();
  EvaluationResult result;
  const at::Tensor losses = measure_loss();
  std::int64_t right = 0;
  if (questions_) {
    const auto ranks = static_cast<std::size_t>(place_.ranks.size());
    ProgressSign sign(place_.tell, "answering questions",
                      static_cast<std::int64_t>((questions().size() + ranks - 1) / ranks));
    result.answers = questions_->answer(place_.ranks, [&](std::int64_t done) { sign.give(done); });
    right =
        std::ranges::count_if(result.answers, [&](const GivenAnswer& answer) { return questions_->is_right(answer); });
  }
  const at::Tensor all_right = at::full({1}, right, losses.options());
  place_.ranks.all_reduce(all_right);
  const at::Tensor host = at::cat({losses, all_right}).cpu();
  place_.ranks.check();
  const LossSum loss = loss_of(host.narrow(0, 0, loss_parts));
  result.bad = loss.bad;
  result.all.tokens = host[loss_parts].item<std::int64_t>();
  if (result.all.tokens > 0)
    result.all.loss = loss.bad > 0 ? std::numeric_limits<double>::quiet_NaN() : loss.mean(result.all.tokens);
  if (questions_) {
    result.all.correct = host[loss_parts + 1].item<std::int64_t>();
    result.all.questions = std::ssize(questions());
  }
  result.all.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return result;
}

}  // namespace muster::train

// How good a model is: the loss on prepared data, and exact match on questions, over all ranks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "communicate/communicator.hpp"
#include "data/dataset.hpp"
#include "train/dataset_visit.hpp"
#include "train/objective_pass.hpp"
#include "train/question_evaluation.hpp"
#include "wire/event.hpp"

namespace muster::train {

struct EvaluationSource {
  std::optional<std::string> data;       // prepared tokens, for the loss
  std::optional<std::string> questions;  // a file of them (read_questions), for exact match
  std::int64_t micro_batch = 1;          // units of a pass
  std::int64_t question_batch = 64;      // questions that are answered at once
  std::int64_t together = 1;             // samples of a unit
};

// What an evaluation has around it; all must outlive it.
struct EvaluationContext {
  const chat::ModelText& text;
  model::CausalModel& model;
  tensor::DeviceOps& ops;
  communicate::Communicator& ranks;
  std::function<void(const wire::EventBody&)> tell;  // reports progress
};

struct EvaluationResult {
  wire::Evaluated all;               // over all ranks, the same on each of them; step and samples are the caller's
  std::vector<GivenAnswer> answers;  // this rank's, in the order of the questions
  std::int64_t bad = 0;              // losses that are not numbers
};

class EpisodeEvaluation;

class Evaluation {
 public:
  Evaluation(Evaluation&&) noexcept;
  ~Evaluation();

  // objective: whose loss and metrics are measured on the data. Refused: what does not fit the model.
  static Result<Evaluation> make(const EvaluationSource& source, EvaluationContext place,
                                 std::unique_ptr<Objective> objective);

  // Neither data nor questions nor environments.
  bool empty() const { return !dataset_ && !questions_ && environments_.empty(); }
  void add(std::unique_ptr<EpisodeEvaluation> environment);
  const std::vector<Question>& questions() const { return questions_->questions(); }
  wire::AnsweredQuestion answered(const GivenAnswer& answer) const;
  // Passes take this many units from now on.
  void take_at_once(std::int64_t units) { micro_batch_ = units; }
  // Each rank measures its share. All ranks call it together.
  EvaluationResult measure();
  // Likewise episodes in all environments; their metrics.
  Result<std::vector<wire::NamedNumber>> play();

 private:
  explicit Evaluation(EvaluationContext place);
  // Over all ranks: parts of the exact sums of all metrics.
  at::Tensor measure_sums();
  using PassMeasure = std::function<at::Tensor(const data::MicroBatch&)>;
  // Adds up what every pass over a part of the units gives, over all ranks. Absent: memory ran out on one of them.
  std::optional<at::Tensor> visit(UnitPart part, const at::Tensor& sums, const PassMeasure& measure);
  // The metrics of the whole dataset.
  std::optional<at::Tensor> visit_all();
  void take_sums(const at::Tensor& sums, EvaluationResult& result) const;
  void take_extremes(EvaluationResult& result) const;

  EvaluationContext place_;
  std::int64_t micro_batch_ = 1;
  std::int64_t together_ = 1;
  std::optional<data::Dataset> dataset_;
  data::StepTotals totals_;  // of the dataset
  std::unique_ptr<ObjectivePass> passes_;
  std::optional<QuestionEvaluation> questions_;
  std::vector<std::unique_ptr<EpisodeEvaluation>> environments_;
};

}  // namespace muster::train

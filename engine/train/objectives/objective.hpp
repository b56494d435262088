// What a model is trained by: how much the loss of each trained token weighs, and what is measured beside it. An
// objective knows neither the model nor the ranks; objectives.hpp has the table of all.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "data/batch_loader.hpp"
#include "tensor/torch.hpp"

namespace muster::train {

// What is known of a step, over all ranks, before anything is weighed.
struct StepFacts {
  data::StepTotals totals;
  double scored_mean = 0;  // of Objective::score() over all units, where it scores first
  bool is_fresh = false;   // answers were drawn by the weights that are there now
};

// The trained rows of one micro-batch.
struct TrainedRows {
  const data::MicroBatch& batch;
  at::Device device;
  const StepFacts& step;  // that they belong to
  // ln of the probability of each row's target: float32 [trained rows] on the device.
  at::Tensor log_probabilities;
  // What the model's head for scores gives of each row: float32 [trained rows, outputs] on the device.
  at::Tensor scores;
  // That of each row's probabilities, in nats, once an objective that weighs them has learnt: float32 [trained rows].
  at::Tensor entropies = {};
};

// What a metric is of the terms of a step that is no sum of them.
enum class Extreme { least, greatest };

class Objective {
 public:
  virtual ~Objective() = default;

  // Each is a sum over all rows of a step, divided by its normalizer; the last ones are extremes(). The first is the loss.
  virtual std::span<const std::string_view> metrics() const = 0;
  virtual std::span<const Extreme> extremes() const { return {}; }
  // The same number on every rank.
  virtual std::int64_t normalizer(const data::StepTotals& totals) const = 0;
  // What it reads of the trained rows: the probabilities of their targets, scores, or both. Of what it does not read
  // nothing is computed.
  virtual bool reads_tokens() const { return true; }
  virtual bool reads_scores() const { return false; }
  // Probabilities are of the softmax of logits / temperature.
  virtual double temperature() const { return 1; }
  // Whether weights follow from log-probabilities: then these are computed first, by a second pass through the head.
  virtual bool weighs_by_probability(const StepFacts&) const { return false; }
  // Whether the second samples of units are scored, before the first ones are weighed.
  virtual bool scores_first() const { return false; }
  // A float32 for each sequence, of rows of second samples.
  virtual at::Tensor score(const TrainedRows&) const { return {}; }
  // −∂(normalizer · loss)/∂log-probability of each row: float32 [trained rows] on the device. Log-probabilities are
  // undefined unless weighs_by_probability().
  virtual at::Tensor weigh(const TrainedRows& rows) const = 0;
  // −∂(normalizer · loss)/∂entropy of each row's probabilities: float32 [trained rows] on the device. Undefined: none
  // counts.
  virtual at::Tensor weigh_entropies(const TrainedRows&) const { return {}; }
  // ∂(normalizer · loss)/∂score of each row: float32 [trained rows, outputs] on the device. Scores are there;
  // log-probabilities as of weigh().
  virtual at::Tensor weigh_scores(const TrainedRows&) const { return {}; }
  // For each of metrics() its terms, float32. Sums are exact, so that it does not matter how rows are laid
  // over passes and ranks.
  virtual std::vector<at::Tensor> measure(const TrainedRows& rows) const = 0;
};

}  // namespace muster::train

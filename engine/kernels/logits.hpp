// Probabilities of tokens from rows of logits. Each row's result depends on that row alone.
#pragma once

#include <cstdint>

#include "kernels/scalar.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

// [rows, columns]
struct Logits {
  const void* values = nullptr;
  Scalar io = Scalar::float32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// results[rows] = ln Σ e^logit
void log_sum_exp(ThreadTeam& team, const Logits& logits, float* results);
// results[rows] = ln of the probability of tokens[row], of the softmax of logits / temperature
void log_softmax_select(ThreadTeam& team, const Logits& logits, const std::int64_t* tokens, float* results,
                        double temperature = 1.0);
// probabilities[rows, columns]
void softmax(ThreadTeam& team, const Logits& logits, float* probabilities);
// results[rows] = index of the largest logit, the lowest of several; a NaN is never chosen.
void argmax(ThreadTeam& team, const Logits& logits, std::int64_t* results);

// As argmax of one row, on the calling thread, which may be one of the team's.
std::int64_t argmax_of_row(const ThreadTeam& team, const float* logits, std::int64_t columns);
// weights[columns]: how often to draw each token of one row relative to the others (kernels/draw_weight.hpp), where
// highest is its largest logit. On the calling thread, too.
void draw_weights(const ThreadTeam& team, const float* logits, std::int64_t columns, float highest, double temperature,
                  std::uint64_t* weights);

// logits_gradient[rows, columns], of io, = result_gradients[row] · (1 at tokens[row] - probability): the gradient of
// log_softmax_select. log_sums are log_sum_exp's. logits_gradient may be the logits.
void log_softmax_select_gradient(ThreadTeam& team, const Logits& logits, const std::int64_t* tokens,
                                 const float* log_sums, const float* result_gradients, void* logits_gradient);

// losses[rows] = -log_softmax_select, bit for bit; logits_gradient, which may be the logits, = the gradient of
// Σ weights[row] · losses[row], as log_softmax_select_gradient has it.
void cross_entropy(ThreadTeam& team, const Logits& logits, const std::int64_t* tokens, const float* weights,
                   float* losses, void* logits_gradient, double temperature = 1.0);

// What entropies of rows count, those of the softmax of logits / temperature, in nats.
struct EntropyTerms {
  const float* weights = nullptr;
  float* entropies = nullptr;  // are written here
};
// The same, with Σ entropies.weights[row] · entropy[row] less in what the gradient is of.
void cross_entropy(ThreadTeam& team, const Logits& logits, const std::int64_t* tokens, const float* weights,
                   const EntropyTerms& entropies, float* losses, void* logits_gradient, double temperature = 1.0);

}  // namespace muster::kernels

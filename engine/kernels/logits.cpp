#include "kernels/logits.hpp"

#include "kernels/kernel_table.hpp"

namespace muster::kernels {
namespace {

void reduce(ThreadTeam& team, const LogitsJob& job) {
  team.split(job.logits.rows, 1,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().reduce_logits(job, begin, end); });
}

}  // namespace

void log_sum_exp(ThreadTeam& team, const Logits& logits, float* results) {
  reduce(team, {.logits = logits, .reduction = LogitsReduction::log_sum, .results = results});
}

void log_softmax_select(ThreadTeam& team, const Logits& logits, const std::int64_t* tokens, float* results,
                        double temperature) {
  reduce(team, {.logits = logits,
                .reduction = LogitsReduction::select,
                .inverse_temperature = static_cast<float>(1.0 / temperature),
                .tokens = tokens,
                .results = results});
}

void softmax(ThreadTeam& team, const Logits& logits, float* probabilities) {
  reduce(team, {.logits = logits, .reduction = LogitsReduction::softmax, .results = probabilities});
}

void argmax(ThreadTeam& team, const Logits& logits, std::int64_t* results) {
  reduce(team, {.logits = logits, .reduction = LogitsReduction::argmax, .indices = results});
}

std::int64_t argmax_of_row(const ThreadTeam& team, const float* logits, std::int64_t columns) {
  std::int64_t found = 0;
  team.kernels().reduce_logits(
      {.logits = {logits, Scalar::float32, 1, columns}, .reduction = LogitsReduction::argmax, .indices = &found}, 0, 1);
  return found;
}

void draw_weights(const ThreadTeam& team, const float* logits, std::int64_t columns, float highest, double temperature,
                  std::uint64_t* weights) {
  team.kernels().weigh_logits({logits, highest, temperature, weights}, 0, columns);
}

void log_softmax_select_gradient(ThreadTeam& team, const Logits& logits, const std::int64_t* tokens,
                                 const float* log_sums, const float* result_gradients, void* logits_gradient) {
  reduce(team, {.logits = logits,
                .reduction = LogitsReduction::select_back,
                .tokens = tokens,
                .log_sums = log_sums,
                .result_gradients = result_gradients,
                .gradient = logits_gradient});
}

void cross_entropy(ThreadTeam& team, const Logits& logits, const std::int64_t* tokens, const float* weights,
                   float* losses, void* logits_gradient, double temperature) {
  cross_entropy(team, logits, tokens, weights, {}, losses, logits_gradient, temperature);
}

void cross_entropy(ThreadTeam& team, const Logits& logits, const std::int64_t* tokens, const float* weights,
                   const EntropyTerms& entropies, float* losses, void* logits_gradient, double temperature) {
  reduce(team, {.logits = logits,
                .reduction = LogitsReduction::loss,
                .inverse_temperature = static_cast<float>(1.0 / temperature),
                .tokens = tokens,
                .results = losses,
                .gradient = logits_gradient,
                .loss_weights = weights,
                .entropy_weights = entropies.weights,
                .entropies = entropies.entropies});
}

}  // namespace muster::kernels

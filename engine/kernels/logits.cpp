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

void log_softmax_select(ThreadTeam& team, const Logits& logits, const std::int64_t* tokens, float* results) {
  reduce(team, {.logits = logits, .reduction = LogitsReduction::select, .tokens = tokens, .results = results});
}

void softmax(ThreadTeam& team, const Logits& logits, float* probabilities) {
  reduce(team, {.logits = logits, .reduction = LogitsReduction::softmax, .results = probabilities});
}

void argmax(ThreadTeam& team, const Logits& logits, std::int64_t* results) {
  reduce(team, {.logits = logits, .reduction = LogitsReduction::argmax, .indices = results});
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

}  // namespace muster::kernels

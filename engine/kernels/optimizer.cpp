#include "kernels/optimizer.hpp"

#include <cmath>
#include <vector>

#include "kernels/kernel_table.hpp"

namespace muster::kernels {
namespace {

constexpr std::int64_t panels_at_once = 512;
constexpr std::int64_t blocks_at_once = 64;
constexpr std::int64_t coded_blocks_at_once = 32;

GradientSource source_of(const Sum& sum, double scale) { return {sum, static_cast<float>(scale), 0x1p-44 * scale}; }

AdamWJob job_of(const AdamWRule& rule, const Sum& gradient, std::int64_t count, Scalar state, void* parameter) {
  const auto steps = static_cast<double>(rule.step);
  return {.gradient = source_of(gradient, rule.gradient_scale),
          .count = count,
          .state = state,
          .parameter = parameter,
          .kept = static_cast<float>(1 - rule.rate * rule.decay),
          .first_share = static_cast<float>(1 - rule.beta1),
          .beta2 = static_cast<float>(rule.beta2),
          .second_share = static_cast<float>(1 - rule.beta2),
          .second_root = static_cast<float>(std::sqrt(1 - std::pow(rule.beta2, steps))),
          .epsilon = static_cast<float>(rule.epsilon),
          .step_size = static_cast<float>(rule.rate / (1 - std::pow(rule.beta1, steps)))};
}

}  // namespace

void adamw(ThreadTeam& team, const AdamWRule& rule, const Sum& gradient, std::int64_t count, Scalar state,
           void* parameter, void* first_moment, void* second_moment) {
  AdamWJob job = job_of(rule, gradient, count, state, parameter);
  job.first_moment = first_moment;
  job.second_moment = second_moment;
  team.split((count + 15) / 16, panels_at_once,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().adamw(job, begin, end); });
}

void adamw(ThreadTeam& team, const AdamWRule& rule, const Sum& gradient, std::int64_t count, Scalar state,
           void* parameter, const CodedMoment& first_moment, const CodedMoment& second_moment) {
  const CodedAdamWJob job{job_of(rule, gradient, count, state, parameter),
                          {&signed_map(), first_moment.codes, first_moment.scales},
                          {&unsigned_map(), second_moment.codes, second_moment.scales}};
  team.split((count + coded_moment_block - 1) / coded_moment_block, coded_blocks_at_once,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().coded_adamw(job, begin, end); });
}

void sgd(ThreadTeam& team, const SgdRule& rule, const Sum& gradient, std::int64_t count, Scalar state, void* parameter,
         void* momentum) {
  const SgdJob job{.gradient = source_of(gradient, rule.gradient_scale),
                   .count = count,
                   .state = state,
                   .parameter = parameter,
                   .momentum = momentum,
                   .rate = static_cast<float>(rule.rate),
                   .kept_momentum = static_cast<float>(rule.momentum),
                   .decay = static_cast<float>(rule.decay),
                   .first = rule.first};
  team.split((count + 15) / 16, panels_at_once,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().sgd(job, begin, end); });
}

std::int64_t square_block_count(std::int64_t count) { return (count + squares_block - 1) / squares_block; }

void square_blocks(ThreadTeam& team, const Sum& sum, std::int64_t count, double* blocks) {
  const SquaresJob job{sum, count, blocks};
  team.split(square_block_count(count), blocks_at_once,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().sum_squares(job, begin, end); });
}

}  // namespace muster::kernels

#include "kernels/optimizer.hpp"

#include <cmath>
#include <vector>

#include "kernels/kernel_table.hpp"

namespace muster::kernels {
namespace {

constexpr std::int64_t panels_at_once = 512;
constexpr std::int64_t blocks_at_once = 64;

GradientSource source_of(const Sum& sum, double scale) { return {sum, static_cast<float>(scale), 0x1p-44 * scale}; }

}  // namespace

void adamw(ThreadTeam& team, const AdamWRule& rule, const Sum& gradient, std::int64_t count, Scalar state,
           void* parameter, void* first_moment, void* second_moment) {
  const auto steps = static_cast<double>(rule.step);
  const AdamWJob job{.gradient = source_of(gradient, rule.gradient_scale),
                     .count = count,
                     .state = state,
                     .parameter = parameter,
                     .first_moment = first_moment,
                     .second_moment = second_moment,
                     .kept = static_cast<float>(1 - rule.rate * rule.decay),
                     .first_share = static_cast<float>(1 - rule.beta1),
                     .beta2 = static_cast<float>(rule.beta2),
                     .second_share = static_cast<float>(1 - rule.beta2),
                     .second_root = static_cast<float>(std::sqrt(1 - std::pow(rule.beta2, steps))),
                     .epsilon = static_cast<float>(rule.epsilon),
                     .step_size = static_cast<float>(rule.rate / (1 - std::pow(rule.beta1, steps)))};
  team.split((count + 15) / 16, panels_at_once,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().adamw(job, begin, end); });
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

#include "kernels/normalize.hpp"

#include <algorithm>

#include "kernels/kernel_table.hpp"
#include "kernels/row_sums.hpp"

namespace muster::kernels {
namespace {

constexpr std::int64_t elements_at_once = 8192;

std::int64_t rows_at_once(const Normalization& normalization) {
  return std::max<std::int64_t>(1, elements_at_once / std::max<std::int64_t>(1, normalization.columns));
}

void normalize(ThreadTeam& team, const NormalizeJob& job) {
  team.split(job.normalization.rows, rows_at_once(job.normalization),
             [&](std::int64_t begin, std::int64_t end) { team.kernels().normalize(job, begin, end); });
}

void normalize_gradient(ThreadTeam& team, NormalizeJob job, const Sum& weight_sum) {
  const Normalization& normalization = job.normalization;
  job.means = team.workspace(static_cast<std::size_t>(2 * normalization.rows));
  job.inverses = job.means + normalization.rows;
  team.split(normalization.rows, rows_at_once(normalization),
             [&](std::int64_t begin, std::int64_t end) { team.kernels().normalize_back(job, begin, end); });
  if (!weight_sum.is_wanted()) return;
  const ColumnSumJob columns{.values = job.output_gradient,
                             .inputs = normalization.input,
                             .means = job.means,
                             .inverses = job.inverses,
                             .round_inputs = !job.centered,
                             .io = normalization.io,
                             .rows = normalization.rows,
                             .columns = normalization.columns,
                             .sum = weight_sum};
  team.split((columns.columns + 15) / 16, 4,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().sum_columns(columns, begin, end); });
}

}  // namespace

void rms_norm(ThreadTeam& team, const Normalization& normalization, void* output) {
  NormalizeJob job{.normalization = normalization, .output = output};
  job.normalization.bias = nullptr;
  normalize(team, job);
}

void rms_norm_gradient(ThreadTeam& team, const Normalization& normalization, const void* output_gradient,
                       void* input_gradient, const Sum& weight_sum) {
  normalize_gradient(
      team, {.normalization = normalization, .output_gradient = output_gradient, .output = input_gradient}, weight_sum);
}

void layer_norm(ThreadTeam& team, const Normalization& normalization, void* output) {
  normalize(team, {.normalization = normalization, .centered = true, .output = output});
}

void layer_norm_gradient(ThreadTeam& team, const Normalization& normalization, const void* output_gradient,
                         void* input_gradient, const Sum& weight_sum, const Sum& bias_sum) {
  normalize_gradient(
      team,
      {.normalization = normalization, .centered = true, .output_gradient = output_gradient, .output = input_gradient},
      weight_sum);
  if (!bias_sum.is_wanted()) return;
  add_rows(team, output_gradient, normalization.io, normalization.rows, normalization.columns, bias_sum);
}

}  // namespace muster::kernels

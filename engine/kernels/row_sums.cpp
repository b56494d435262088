#include "kernels/row_sums.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/kernel_table.hpp"

namespace muster::kernels {
namespace {

std::vector<std::int64_t> sorted_by_index(const std::int64_t* indices, std::int64_t rows) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, {}, [indices](std::int64_t row) { return indices[row]; });
  return order;
}

}  // namespace

void add_rows(ThreadTeam& team, const void* values, Scalar io, std::int64_t rows, std::int64_t columns,
              const Sum& sum) {
  const ColumnSumJob job{.values = values, .io = io, .rows = rows, .columns = columns, .sum = sum};
  team.split((columns + 15) / 16, 4,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().sum_columns(job, begin, end); });
}

// Each thread has its columns of all rows, so that no two write to one place and the rows keep their order.
void add_rows_at(ThreadTeam& team, const void* values, Scalar io, const std::int64_t* indices, std::int64_t rows,
                 std::int64_t columns, const Sum& sum) {
  const std::vector<std::int64_t> order =
      sum.rounded == nullptr ? std::vector<std::int64_t>() : sorted_by_index(indices, rows);
  const RowScatterJob job{values, io, indices, order.data(), rows, columns, sum};
  const std::int64_t panels = (columns + 15) / 16;
  const std::int64_t share = std::max<std::int64_t>(4, (panels + team.size() - 1) / team.size());
  team.split(panels, share,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().scatter_rows(job, begin, end); });
}

}  // namespace muster::kernels

// Sums over rows: of gradients of biases, norms and embeddings. A float32 sum takes the rows in order (add_rows
// restarts every 256); an exact one takes each row as a term; one of bfloat16 takes as a term what a float32 sum of the
// same rows would hold, for add_rows_at the rows of one index.
#pragma once

#include <cstdint>

#include "kernels/scalar.hpp"
#include "kernels/sum.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

// sum[columns] += the rows of values [rows, columns].
void add_rows(ThreadTeam& team, const void* values, Scalar io, std::int64_t rows, std::int64_t columns, const Sum& sum);

// sum[indices[i]][columns] += values[i]; several rows may have one index.
void add_rows_at(ThreadTeam& team, const void* values, Scalar io, const std::int64_t* indices, std::int64_t rows,
                 std::int64_t columns, const Sum& sum);

}  // namespace muster::kernels

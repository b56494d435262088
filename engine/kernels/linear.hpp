// Products with a weight matrix, forward and backward. Each output is one chain of float32 FMAs in ascending order,
// begun anew every 256 and the parts added in order; it depends on neither the number of rows nor the threads.
#pragma once

#include <cstdint>

#include "kernels/accumulate.hpp"
#include "kernels/packed_matrix.hpp"
#include "kernels/scalar.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

// output[rows, outputs] = input[rows, inputs] · weightᵀ + bias, rounded once to io. bias may be null.
void linear(ThreadTeam& team, const PackedMatrix& weight, const void* input, Scalar io, std::int64_t rows,
            const float* bias, void* output);

// input_gradient[rows, inputs] = output_gradient[rows, outputs] · weight
void linear_input_gradient(ThreadTeam& team, const PackedMatrix& weight, const void* output_gradient, Scalar io,
                           std::int64_t rows, void* input_gradient);

// weight_gradient[outputs, inputs], row-major, = or += output_gradientᵀ · input, chained over the rows.
void linear_weight_gradient(ThreadTeam& team, const void* output_gradient, const void* input, Scalar io,
                            std::int64_t rows, std::int64_t outputs, std::int64_t inputs, float* weight_gradient,
                            Accumulate mode);

// bias_gradient[outputs] = or += the sum of output_gradient's rows.
void linear_bias_gradient(ThreadTeam& team, const void* output_gradient, Scalar io, std::int64_t rows,
                          std::int64_t outputs, float* bias_gradient, Accumulate mode);

}  // namespace muster::kernels

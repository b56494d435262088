// Products with a weight matrix, forward and backward. Each output is one chain of float32 FMAs in ascending order,
// restarted every 256, with the parts added in order; it depends on neither the number of rows nor the threads. A
// matrix of codes gives the bits of a plain one with the same numbers.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/coded/coded_matrix.hpp"
#include "kernels/packed_matrix.hpp"
#include "kernels/scalar.hpp"
#include "kernels/sum.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

// output[rows, outputs] = added + (input[rows, inputs] · weightᵀ + bias), rounded once to io. bias may be null; added,
// laid out as output, may be output, and where it is not null io is float32.
void linear(ThreadTeam& team, const PackedMatrix& weight, const void* input, Scalar io, std::int64_t rows,
            const float* bias, void* output, const float* added = nullptr);
void linear(ThreadTeam& team, const CodedMatrix& weight, const void* input, Scalar io, std::int64_t rows,
            const float* bias, void* output, const float* added = nullptr);

// input_gradient[rows, inputs] = output_gradient[rows, outputs] · weight
void linear_input_gradient(ThreadTeam& team, const PackedMatrix& weight, const void* output_gradient, Scalar io,
                           std::int64_t rows, void* input_gradient);
void linear_input_gradient(ThreadTeam& team, const CodedMatrix& weight, const void* output_gradient, Scalar io,
                           std::int64_t rows, void* input_gradient);

// sum[outputs, inputs], row-major, += output_gradientᵀ · input, chained over the rows. sequence_rows: how many rows
// each sequence has, in order. An exact sum takes each sequence's chain as a term; others take all rows as one chain.
void linear_weight_gradient(ThreadTeam& team, const void* output_gradient, const void* input, Scalar io,
                            std::span<const std::int64_t> sequence_rows, std::int64_t outputs, std::int64_t inputs,
                            const Sum& sum);

}  // namespace muster::kernels

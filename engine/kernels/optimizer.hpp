// Steps of an optimizer, element by element: a number's bits do not depend on where in an array it stands, or, of
// moments in 8 bits, in which of its blocks. And the sum of squares that clipping needs.
#pragma once

#include <cstdint>

#include "kernels/scalar.hpp"
#include "kernels/sum.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

// What a step changes is stored as `state`, float32 or bfloat16: computed in float32, and rounded when it is written.

// torch.optim.AdamW's step number `step`, from 1. A gradient is what its sum holds, times gradient_scale.
struct AdamWRule {
  double rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double decay = 0;
  std::int64_t step = 1;
  double gradient_scale = 1;
};
void adamw(ThreadTeam& team, const AdamWRule& rule, const Sum& gradient, std::int64_t count, Scalar state,
           void* parameter, void* first_moment, void* second_moment);

// A moment of a parameter in 8 bits: for each 256 elements in turn, the last ones may be fewer, the largest magnitude,
// and for each element the code of its share of that.
struct CodedMoment {
  std::uint8_t* codes = nullptr;  // places in the signed map (dynamic_map.hpp); of the second moment in the unsigned
  float* scales = nullptr;
};
// The same step from moments as their codes have them. The parameter is stepped by the new ones, which are coded after
// that, each as the nearest: Note [Nearest codes].
void adamw(ThreadTeam& team, const AdamWRule& rule, const Sum& gradient, std::int64_t count, Scalar state,
           void* parameter, const CodedMoment& first_moment, const CodedMoment& second_moment);

// torch.optim.SGD's. In the first step the momentum is the gradient.
struct SgdRule {
  double rate = 0;
  double momentum = 0;
  double decay = 0;
  bool first = false;
  double gradient_scale = 1;
};
// momentum may be null where there is none.
void sgd(ThreadTeam& team, const SgdRule& rule, const Sum& gradient, std::int64_t count, Scalar state, void* parameter,
         void* momentum);

// Σ value² in float64, of each 256 values: sixteen sums, one for each place modulo 16, folded 8, 4, 2, 1 apart.
std::int64_t square_block_count(std::int64_t count);
void square_blocks(ThreadTeam& team, const Sum& sum, std::int64_t count, double* blocks);

}  // namespace muster::kernels

// AdamW whose moments are kept in 8 bits.
#pragma once

#include "optimizer/optimizer.hpp"

namespace muster::optimizer {

// Both must outlive it.
std::unique_ptr<Optimizer> make_coded_adamw(const OptimizerSettings& settings, tensor::TrainingOps& training,
                                            const parallel::Strategy& strategy);

// Whether adamw_8bit has 8-bit states of the tensor that a part's piece is of. A tensor that begins within a block (one
// that is joined with others to be computed with, below one whose elements are no multiple of 256) has none.
bool has_coded_states(const parallel::FlatPiece& piece, model::UnitId unit);

tensor::AdamWStep adamw_step(const OptimizerSettings& settings, std::int64_t number, double rate,
                             double gradient_scale);

}  // namespace muster::optimizer

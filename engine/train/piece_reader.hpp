// Where a training state is read from: only the elements that are asked for.
#pragma once

#include <functional>
#include <string>

#include "checkpoint/tensor_source.hpp"
#include "checkpoint/training_checkpoint.hpp"
#include "parallel/flat_layout.hpp"

namespace muster::train {

// What checkpoints keep a state's numbers as.
at::ScalarType saved_type(const std::string& state);

// Fills a piece of a flat tensor, on any device, with a state's numbers. first and count of the piece: in numbers.
using PieceReader =
    std::function<Result<void>(const parallel::FlatPiece& piece, const std::string& state, const at::Tensor& flat)>;

// Both must outlive the reader. A checkpoint is of the same model (check_same_tensors), prefix: as of its StateTensors.
PieceReader reader_of(const checkpoint::TrainingCheckpoint& checkpoint, const std::string& prefix = {});
// Reads parameters; what other states hold stays as it is. The host has some rows of a piece at a time.
PieceReader reader_of(const checkpoint::TensorSource& source);

}  // namespace muster::train

// A parameter as a model computes with it: one matrix or vector, which a checkpoint may have as several tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/primitives.hpp"

namespace muster::model {

// Its place in CausalModel::parameters().
enum class ParameterId : std::size_t {};

// Parameters that are needed, and whose gradients are complete, at the same time: the embedding, then the blocks, then
// what comes after them.
enum class UnitId : std::size_t {};

struct Parameter {
  // A checkpoint's tensor: consecutive rows.
  struct Piece {
    std::string name;
    std::int64_t rows = 0;
  };
  UnitId unit{};
  std::vector<Piece> pieces;
  std::int64_t rows = 0;
  std::optional<std::int64_t> columns;  // absent: a vector
  bool transposed = false;              // the checkpoint has its pieces as [columns, rows]
  bool trained = true;                  // otherwise it is frozen: it has no master, no gradient and no optimizer state
  // Where its numbers are read from: one of the two.
  tensor::Weight weight;
  at::Tensor vector;

  std::int64_t elements() const { return rows * columns.value_or(1); }
  // The shape of the values as the model has them.
  std::vector<std::int64_t> shape() const {
    return columns ? std::vector<std::int64_t>{rows, *columns} : std::vector<std::int64_t>{rows};
  }
};

}  // namespace muster::model

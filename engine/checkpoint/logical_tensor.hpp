// What a training checkpoint holds, free of layout: tensors under their names, each with states, and pieces of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::checkpoint {

// The state that every tensor has: its numbers, as float32.
inline constexpr std::string_view parameter_state = "parameter";

// Every state has as many float32 numbers as the tensor has elements.
struct LogicalTensor {
  std::string name;  // transformers': "model.layers.0.mlp.up_proj.weight"
  spec::Dimensions dimensions;
  std::vector<std::string> states;  // "parameter", "first_moment", "second_moment"
  bool transposed = false;          // transformers has its rows as columns
  bool operator==(const LogicalTensor&) const = default;
};

// Elements one after the other, in the tensor's own order (row by row).
struct Piece {
  std::string tensor;
  std::string state;
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const Piece&) const = default;
};

// As transformers has them.
spec::Dimensions model_dimensions(const LogicalTensor& tensor);

// The parameters of a model, tied ones once, in its order, each with "parameter" and these states.
std::vector<LogicalTensor> trained_tensors(const spec::ModelShape& shape, const std::vector<std::string>& states);

// What one of several ranks that all have everything writes: an even share of all elements of all states, taken one
// after the other. Long pieces are cut, so that several threads can check them.
std::vector<Piece> share_of(std::span<const LogicalTensor> tensors, int ranks, int rank);

// Appends a piece, cut where it is long.
void add_cut(std::vector<Piece>& pieces, const Piece& piece);

std::int64_t element_count(std::span<const Piece> pieces);

// Refused: names that no file can hold, duplicate names or states, impossible sizes.
Result<void> check_tensors(std::span<const LogicalTensor> tensors);

// A piece that its tensor has no room for, an element that no piece has, or two have, is an error that names it.
// source names the checkpoint in messages.
Result<void> check_coverage(std::span<const LogicalTensor> tensors, std::span<const Piece> pieces,
                            const std::string& source);

}  // namespace muster::checkpoint

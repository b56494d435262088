// What a training checkpoint holds, free of layout: tensors under their names, each with states, and pieces of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/element_type.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::checkpoint {

// The state that every tensor has: its numbers, as float32.
inline constexpr std::string_view parameter_state = "parameter";

// What the numbers of a state are, which its name says.
struct StateForm {
  spec::ElementType type = spec::ElementType::float32;
  std::int64_t block = 1;  // elements that one number is for; of the last block there may be fewer
};
// "…_codes": a byte for each element; "…_scales": a float32 for each 256; all others: a float32 for each element.
StateForm form_of(std::string_view state);

struct LogicalTensor {
  std::string name;  // transformers': "model.layers.0.mlp.up_proj.weight"
  spec::Dimensions dimensions;
  std::vector<std::string> states;  // "parameter", "first_moment", "second_moment_codes"
  bool transposed = false;          // transformers has its rows as columns
  bool operator==(const LogicalTensor&) const = default;
};

// Numbers of a state one after the other, in the tensor's own order (row by row).
struct Piece {
  std::string tensor;
  std::string state;
  std::int64_t first = 0;
  std::int64_t count = 0;

  std::int64_t bytes() const { return count * spec::bytes_per_element(form_of(state).type); }
  bool operator==(const Piece&) const = default;
};

// How many numbers a state of the tensor has, and in how many bytes.
std::int64_t number_count(const LogicalTensor& tensor, std::string_view state);
std::int64_t byte_count(const LogicalTensor& tensor, std::string_view state);
// All states together.
std::int64_t byte_count(const LogicalTensor& tensor);

// As transformers has them.
spec::Dimensions model_dimensions(const LogicalTensor& tensor);

// The parameters of a model, tied ones once, in its order, each with "parameter" and these states.
std::vector<LogicalTensor> trained_tensors(const spec::ModelShape& shape, const std::vector<std::string>& states);

// What one of several ranks that all have everything writes: an even share of the bytes of all states, taken one after
// the other. Long pieces are cut, so that several threads can check them.
std::vector<Piece> share_of(std::span<const LogicalTensor> tensors, int ranks, int rank);

// Appends a piece, cut where it is long.
void add_cut(std::vector<Piece>& pieces, const Piece& piece);

std::int64_t byte_count(std::span<const Piece> pieces);

// Refused: names that no file can hold, duplicate names or states, impossible sizes.
Result<void> check_tensors(std::span<const LogicalTensor> tensors);

// A piece that its state has no room for, a number that no piece has, or two have, is an error that names it.
// source names the checkpoint in messages.
Result<void> check_coverage(std::span<const LogicalTensor> tensors, std::span<const Piece> pieces,
                            const std::string& source);

}  // namespace muster::checkpoint

// An open checkpoint: its tensors under transformers' names, whatever the file calls them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "spec/element_type.hpp"
#include "spec/model/model_search.hpp"
#include "spec/model/model_shape.hpp"
#include "spec/weight_packing.hpp"

namespace muster::checkpoint {

struct TensorEntry {
  std::string name;                               // transformers': "model.layers.0.self_attn.q_proj.weight"
  spec::Dimensions dimensions;                    // transformers' orientation
  std::string_view stored_as;                     // "bfloat16", "Q4_K"
  std::optional<spec::ElementType> element_type;  // absent for GGUF's blocks
  std::uint64_t stored_bytes = 0;
};

// A part of a tensor with one or two dimensions, in transformers' orientation. The rows of one with one dimension are
// its elements. The default is the whole tensor, of any number of dimensions.
struct TensorSlice {
  std::int64_t first_row = 0;
  std::optional<std::int64_t> rows;  // absent: all from first_row on
  std::int64_t first_column = 0;
  std::optional<std::int64_t> columns;
};

// A matrix whose codes lie in the file as they are computed with: a row for each output, also where the tensor itself has
// one for each input (GPT-2's).
struct PackedTensor {
  spec::WeightPacking packing;
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // of 4 bits: whole runs

  std::int64_t code_bytes_per_row() const { return columns * packing.bits() / 8; }
  std::int64_t scales_per_row() const { return packing.bits() == 8 ? 1 : columns / packing.run; }
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // In the order of the model's modules (for a file that is not a model: of places). A tied tensor is listed once.
  virtual std::span<const TensorEntry> tensors() const = 0;
  // nullptr where the checkpoint has no such tensor. The second name of a tied tensor finds the first one's entry.
  virtual const TensorEntry* find(std::string_view name) const = 0;
  // Fills out with the slice, row by row, as numbers of the type asked for: exact, or rounded to the nearest, ties to
  // even. Only the slice's bytes are read from the file (of GGUF's blocks, the blocks it touches). Safe in several
  // threads. out must have exactly the slice's size; a slice beyond the tensor is refused, and so is a file that
  // changed its size since it was opened. Integers come only in the type they are stored in.
  virtual Result<void> read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                            std::span<std::byte> out) const = 0;
  // The whole tensor as it lies in the file, element_type's numbers row by row, without a copy: to pack or to send on.
  // Valid as long as this source. nullptr: not available (packed blocks, another row order, no file), so read it. Not
  // for files that others rewrite in place: see MappedFile.
  virtual const std::byte* view(std::string_view) const { return nullptr; }
  // The caller is done with a tensor that it viewed: its pages no longer count as resident.
  virtual void release(std::string_view) const {}
  // What the codes of a tensor are, where it can be had as codes.
  virtual std::optional<PackedTensor> packed(std::string_view) const { return std::nullopt; }
  // Codes and scales of rows of such a tensor. A code of 8 bits is a signed byte; of two of 4 bits in a byte, the earlier
  // is the upper half. A scale is the largest magnitude of its run; those that were quantised are no longer. Both must
  // have exactly the rows' size.
  virtual Result<void> read_packed(std::string_view name, std::int64_t first_row, std::int64_t rows,
                                   std::span<std::byte> codes, std::span<float> scales) const;
  // Bytes read from tensors so far, views included, over all threads.
  virtual std::uint64_t bytes_read() const = 0;
};

// A model's checkpoint as the user names it: a folder, a .safetensors or .gguf file, a name in the store or the hub
// cache. Its tensors are exactly those of the model's shape; a checkpoint that lacks one is refused. A config.json
// alone has no tensors and is refused.
Result<std::unique_ptr<TensorSource>> open_checkpoint(const std::string& model, const spec::ModelSearch& search);

// The tensors of a safetensors file, or of the sharded files of a folder, under their own names.
Result<std::unique_ptr<TensorSource>> open_safetensors(const std::filesystem::path& path);

}  // namespace muster::checkpoint

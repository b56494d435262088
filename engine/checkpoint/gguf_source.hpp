// Tensors out of a GGUF file or its parts, unpacked and in transformers' orientation.
#pragma once

#include <atomic>
#include <filesystem>
#include <vector>

#include "system/regular_file.hpp"
#include "checkpoint/slice_bounds.hpp"
#include "checkpoint/tensor_directory.hpp"
#include "spec/model/gguf_files.hpp"
#include "spec/model/gguf_names.hpp"
#include "spec/model/model_source.hpp"

namespace muster::checkpoint {

class GgufSource : public TensorSource {
 public:
  // first: the only file, or the first part.
  static Result<std::unique_ptr<GgufSource>> open(const std::filesystem::path& first,
                                                  const spec::ModelDescription& model);

  std::span<const TensorEntry> tensors() const override { return directory_.entries(); }
  const TensorEntry* find(std::string_view name) const override;
  Result<void> read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                    std::span<std::byte> out) const override;
  std::uint64_t bytes_read() const override { return bytes_read_.load(std::memory_order_relaxed); }

 private:
  explicit GgufSource(std::vector<RegularFile> files) : files_(std::move(files)) {}

  struct Place {
    std::size_t file = 0;
    std::uint64_t begin = 0;
    spec::GgufType type = spec::GgufType::f32;
    spec::GgufOrder order = spec::GgufOrder::same;
    std::int64_t head_size = 0;     // of interleaved ones
    std::int64_t row_elements = 0;  // of a row in the file
  };
  // Rows of the file as floats: row after row, each with the elements of the blocks that the columns touch.
  struct Tile;

  Result<void> load(const Place& place, std::int64_t first_row, std::int64_t rows, Tile& tile) const;
  Result<void> read_rows(const Place& place, const SliceBounds& bounds, spec::ElementType as,
                         std::span<std::byte> out) const;
  Result<void> read_interleaved_vector(const Place& place, const SliceBounds& bounds, spec::ElementType as,
                                       std::span<std::byte> out) const;
  Result<void> read_transposed(const Place& place, const SliceBounds& bounds, spec::ElementType as,
                               std::span<std::byte> out) const;

  std::vector<RegularFile> files_;
  TensorDirectory directory_;
  std::vector<Place> places_;  // parallel to the directory's entries
  mutable std::atomic<std::uint64_t> bytes_read_ = 0;
};

}  // namespace muster::checkpoint

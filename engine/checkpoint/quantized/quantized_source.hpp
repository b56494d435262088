// A model's tensors out of quantised safetensors files: matrices are decoded tile by tile, all else is as the files have
// it.
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/quantized/matrix_decoder.hpp"
#include "checkpoint/slice_bounds.hpp"
#include "checkpoint/tensor_directory.hpp"
#include "spec/model/model_source.hpp"

namespace muster::checkpoint {

class QuantizedSource final : public TensorSource {
 public:
  // The model's configuration says how it was quantised.
  static Result<std::unique_ptr<QuantizedSource>> open(const std::vector<spec::CheckpointFile>& files,
                                                       const spec::ModelDescription& model);

  std::span<const TensorEntry> tensors() const override { return directory_.entries(); }
  const TensorEntry* find(std::string_view name) const override;
  Result<void> read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                    std::span<std::byte> out) const override;
  const std::byte* view(std::string_view name) const override { return files_->view(name); }
  void release(std::string_view name) const override { files_->release(name); }
  std::optional<PackedTensor> packed(std::string_view name) const override;
  Result<void> read_packed(std::string_view name, std::int64_t first_row, std::int64_t rows, std::span<std::byte> codes,
                           std::span<float> scales) const override;
  std::uint64_t bytes_read() const override { return files_->bytes_read(); }

 private:
  std::optional<std::size_t> matrix_named(std::string_view name) const;
  void list_tensors(const spec::ModelDescription& model);

  std::unique_ptr<SafetensorsSource> files_;  // plain tensors under the model's names, parts of matrices under their own
  Matrices matrices_;
  std::unique_ptr<MatrixDecoder> decoder_;
  TensorDirectory directory_;
  std::vector<std::optional<std::size_t>> places_;  // matrices, parallel to the directory's entries
};

}  // namespace muster::checkpoint

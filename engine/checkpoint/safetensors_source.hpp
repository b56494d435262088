// Tensors out of safetensors files.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "system/regular_file.hpp"
#include "checkpoint/mapped_file.hpp"
#include "checkpoint/slice_bounds.hpp"
#include "checkpoint/tensor_directory.hpp"
#include "spec/model/safetensors_header.hpp"

namespace muster::checkpoint {

// A tensor under the name it is asked for by, which the file may spell otherwise.
struct NamedTensor {
  std::string name;
  std::string stored_name;
};

// Note [Reading and viewing]: read() copies by pread from the system's cache straight to where the caller wants the
// numbers; what the mapping is for is view(), which copies nothing. Copying out of the mapping instead would be no
// faster, would count the tensor twice in resident memory, and a file that shrinks would end the process by a signal;
// here it is an error.
class SafetensorsSource : public TensorSource {
 public:
  // names: the tensors to offer, in this order; what the files hold besides is left out. Each must be there.
  static Result<std::unique_ptr<SafetensorsSource>> open(const std::vector<spec::CheckpointFile>& files,
                                                         const std::vector<NamedTensor>& names);
  void add_name(std::string name, std::string_view of) { directory_.add_name(std::move(name), of); }

  std::span<const TensorEntry> tensors() const override { return directory_.entries(); }
  const TensorEntry* find(std::string_view name) const override;
  Result<void> read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                    std::span<std::byte> out) const override;
  // Bytes of the tensor, whatever its type is, from its first-th on. They must lie within it.
  Result<void> read_bytes(std::string_view name, std::uint64_t first, std::span<std::byte> out) const;
  const std::byte* view(std::string_view name) const override;
  void release(std::string_view name) const override;
  std::uint64_t bytes_read() const override { return bytes_read_.load(std::memory_order_relaxed); }

 private:
  struct Place {
    std::size_t file = 0;
    std::uint64_t begin = 0;
    spec::ElementType type = spec::ElementType::float32;
  };

  Result<void> fill(const Place& place, const SliceBounds& bounds, spec::ElementType as,
                    std::span<std::byte> out) const;
  Result<void> copy(const Place& place, std::int64_t first_element, std::span<std::byte> out,
                    spec::ElementType as) const;

  std::vector<RegularFile> files_;
  std::vector<MappedFile> mappings_;  // parallel to the files
  TensorDirectory directory_;
  std::vector<Place> places_;  // parallel to the directory's entries
  mutable std::atomic<std::uint64_t> bytes_read_ = 0;
};

}  // namespace muster::checkpoint

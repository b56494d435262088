#include "model/parameter_reading.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tensor/element_types.hpp"

namespace muster::model {
namespace {

using tensor::Primitives;

constexpr std::int64_t slice_bytes = 4 << 20;

// Codes are made of the numbers that would be computed with.
at::ScalarType read_as(const tensor::Weight& weight) { return weight.packing ? weight.type : weight.stored; }

std::span<std::byte> bytes_of(at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

// Everything that is read, in slices which threads take in turn.
class Reading {
 public:
  Reading(const checkpoint::TensorSource& source, tensor::DeviceOps& ops) : source_(source), ops_(ops) {}

  void add(const Parameter& parameter) {
    std::int64_t first = 0;
    for (const auto& [name, rows] : parameter.pieces) {
      if (!parameter.columns)
        add_vector(name, parameter.vector.narrow(0, first, rows));
      else if (has_codes(name, parameter.weight))
        add_codes(name, parameter.weight, first, rows);
      else if (parameter.transposed)
        add_transposed(name, parameter.weight, first, rows);
      else
        add_rows(name, parameter.weight, first, rows);
      if (parameter.columns && parameter.weight.packing && parameter.weight.packing->double_quantized)
        last_.push_back([this, weight = parameter.weight, first, rows]() mutable {
          ops_.primitives->round_scales(weight, first, rows);
        });
      first += rows;
    }
  }
  Result<void> run(int threads, const std::function<void(const LoadProgress&)>& progress);

 private:
  struct Slice {
    std::int64_t bytes = 0;
    std::function<Result<void>()> read;
  };
  // Rows first_row to first_row + rows - 1 of the weight are all of the tensor of that name.
  void add_rows(const std::string& name, const tensor::Weight& weight, std::int64_t first_row, std::int64_t rows);
  // The checkpoint has [inputs, outputs]: a band of its columns is a band of our rows.
  void add_transposed(const std::string& name, const tensor::Weight& weight, std::int64_t first_row, std::int64_t rows);
  // Whether the source has it in the codes that the weight is held in.
  bool has_codes(const std::string& name, const tensor::Weight& weight) const;
  void add_codes(const std::string& name, const tensor::Weight& weight, std::int64_t first_row, std::int64_t rows);
  void add_vector(const std::string& name, const at::Tensor& values);

  const checkpoint::TensorSource& source_;
  tensor::DeviceOps& ops_;
  std::vector<Slice> slices_;
  std::vector<std::function<void()>> last_;  // when all of a tensor is there
};

void Reading::add_rows(const std::string& name, const tensor::Weight& weight, std::int64_t first_row,
                       std::int64_t rows) {
  const at::ScalarType type = read_as(weight);
  const std::int64_t row_bytes = weight.inputs * static_cast<std::int64_t>(c10::elementSize(type));
  const std::int64_t alignment = Primitives::rows_between_cuts(weight);
  const std::int64_t most = std::max(alignment, slice_bytes / row_bytes / alignment * alignment);
  for (std::int64_t first = 0; first < rows; first += most) {
    const std::int64_t count = std::min(most, rows - first);
    slices_.push_back({count * row_bytes, [this, name, weight, type, first_row, first, count]() -> Result<void> {
                         at::Tensor slice = at::empty({count, weight.inputs}, type);
                         auto read = source_.read(name, {.first_row = first, .rows = count},
                                                  tensor::from_torch(type), bytes_of(slice));
                         if (!read) return read;
                         tensor::Weight target = weight;  // shares its storage
                         ops_.primitives->fill_rows(target, first_row + first, slice);
                         return {};
                       }});
  }
}

void Reading::add_transposed(const std::string& name, const tensor::Weight& weight, std::int64_t first_row,
                             std::int64_t rows) {
  const at::ScalarType type = read_as(weight);
  const auto element = static_cast<std::int64_t>(c10::elementSize(type));
  const std::int64_t most = Primitives::rows_between_cuts(weight);
  for (std::int64_t first = 0; first < rows; first += most) {
    const std::int64_t count = std::min(most, rows - first);
    slices_.push_back({count * weight.inputs * element,
                       [this, name, weight, type, first_row, first, count]() -> Result<void> {
                         at::Tensor band = at::empty({weight.inputs, count}, type);
                         auto read = source_.read(name, {.first_column = first, .columns = count},
                                                  tensor::from_torch(type), bytes_of(band));
                         if (!read) return read;
                         tensor::Weight target = weight;
                         ops_.primitives->fill_rows(target, first_row + first, band.t().contiguous());
                         return {};
                       }});
  }
}

bool Reading::has_codes(const std::string& name, const tensor::Weight& weight) const {
  const auto stored = source_.packed(name);
  if (!stored || !weight.packing) return false;
  spec::WeightPacking packing = stored->packing;
  packing.double_quantized = false;  // its scales are known
  return packing == *weight.packing;
}

void Reading::add_codes(const std::string& name, const tensor::Weight& weight, std::int64_t first_row,
                        std::int64_t rows) {
  const checkpoint::PackedTensor stored = *source_.packed(name);
  const std::int64_t row_bytes = stored.code_bytes_per_row();
  const std::int64_t most = std::max<std::int64_t>(1, slice_bytes / row_bytes / Primitives::row_alignment) *
                            Primitives::row_alignment;
  for (std::int64_t first = 0; first < rows; first += most) {
    const std::int64_t count = std::min(most, rows - first);
    slices_.push_back({count * row_bytes, [this, name, weight, stored, first_row, first, count]() -> Result<void> {
                         at::Tensor codes = at::empty({count * stored.code_bytes_per_row()}, at::kByte);
                         at::Tensor scales = at::empty({count * stored.scales_per_row()}, at::kFloat);
                         auto read = source_.read_packed(name, first, count, bytes_of(codes),
                                                         {scales.mutable_data_ptr<float>(),
                                                          static_cast<std::size_t>(scales.numel())});
                         if (!read) return read;
                         if (stored.packing.bits() == 8) codes = codes.view(at::kChar).view({count, weight.inputs});
                         tensor::Weight target = weight;
                         ops_.primitives->fill_codes(target, first_row + first, {codes, scales});
                         return {};
                       }});
  }
}

void Reading::add_vector(const std::string& name, const at::Tensor& values) {
  slices_.push_back({static_cast<std::int64_t>(values.nbytes()), [this, name, values]() -> Result<void> {
                       at::Tensor host = at::empty(values.sizes(), values.scalar_type());
                       auto read = source_.read(name, {}, tensor::from_torch(values.scalar_type()), bytes_of(host));
                       if (!read) return read;
                       values.copy_(host);
                       return {};
                     }});
}

// What is thrown on a thread of its own would end the process.
Result<void> read_slice(const std::function<Result<void>()>& read) try {
  return read();
} catch (const std::exception& problem) {
  return Error{Error::Kind::failed, std::string("a part of the model cannot be loaded: ") + problem.what(), ""};
}

Result<void> Reading::run(int threads, const std::function<void(const LoadProgress&)>& progress) {
  LoadProgress sum;
  for (const Slice& slice : slices_) sum.total += slice.bytes;
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // of sum, failure and progress
  std::optional<Error> failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < slices_.size(); i = next++) {
      const auto read = read_slice(slices_[i].read);
      const std::lock_guard lock(mutex);
      if (!read && !failure) failure = read.error();
      if (failure) return;
      sum.done += slices_[i].bytes;
      if (progress) progress(sum);
    }
  };
  {
    std::vector<std::jthread> readers;
    for (int i = 1; i < threads; ++i) readers.emplace_back(work);
    work();
  }
  if (failure) return *failure;
  for (const auto& finish : last_) finish();
  return {};
}

}  // namespace

Result<void> read_parameters(std::span<const Parameter> parameters, const checkpoint::TensorSource& source,
                             tensor::DeviceOps& ops, int threads,
                             const std::function<void(const LoadProgress&)>& progress) {
  Reading reading(source, ops);
  for (const Parameter& parameter : parameters) reading.add(parameter);
  return reading.run(threads, progress);
}

}  // namespace muster::model

#include "model/parameter_loader.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "tensor/element_types.hpp"

namespace muster::model {
namespace {

using tensor::Primitives;

constexpr std::int64_t slice_bytes = 4 << 20;

// What is thrown on a thread of its own would end the process.
Result<void> read_piece(const std::function<Result<void>()>& read) try {
  return read();
} catch (const std::exception& problem) {
  return Error{Error::Kind::failed, std::string("a part of the model cannot be loaded: ") + problem.what(), ""};
}

std::span<std::byte> bytes_of(at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

}  // namespace

ParameterId ParameterLoader::number(Parameter parameter) {
  parameter.unit = unit_;
  for (const Parameter::Piece& piece : parameter.pieces) parameter.rows += piece.rows;
  parameters_.push_back(std::move(parameter));
  return ParameterId{parameters_.size() - 1};
}

tensor::Weight ParameterLoader::new_weight(std::int64_t outputs, std::int64_t inputs) {
  tensor::Weight weight = ops_.primitives->new_weight(outputs, inputs, type_);
  if (memory_ == Memory::later) tensor::TrainingOps::release(weight);
  return weight;
}

ParameterLoader::NumberedWeight ParameterLoader::weight(const std::string& name, std::int64_t outputs,
                                                        std::int64_t inputs) {
  tensor::Weight weight = new_weight(outputs, inputs);
  add_rows(name, weight, 0, outputs);
  Parameter parameter;
  parameter.pieces = {{name, outputs}};
  parameter.columns = inputs;
  parameter.weight = weight;
  return {weight, number(std::move(parameter))};
}

void ParameterLoader::add_rows(const std::string& name, const tensor::Weight& weight, std::int64_t first_row,
                               std::int64_t rows) {
  const std::int64_t row_bytes = weight.inputs * static_cast<std::int64_t>(c10::elementSize(type_));
  const std::int64_t alignment = Primitives::row_alignment;
  const std::int64_t most = std::max(alignment, slice_bytes / row_bytes / alignment * alignment);
  for (std::int64_t first = 0; first < rows; first += most) {
    const std::int64_t count = std::min(most, rows - first);
    pieces_.push_back({count * row_bytes, [this, name, weight, first_row, first, count]() -> Result<void> {
                         at::Tensor slice = at::empty({count, weight.inputs}, type_);
                         auto read = source_.read(name, {.first_row = first, .rows = count}, tensor::from_torch(type_),
                                                  bytes_of(slice));
                         if (!read) return read;
                         tensor::Weight target = weight;  // shares its storage
                         ops_.primitives->fill_rows(target, first_row + first, slice);
                         return {};
                       }});
  }
}

// The checkpoint has [inputs, outputs]: a band of its columns is a band of our rows.
void ParameterLoader::add_transposed(const std::string& name, const tensor::Weight& weight, std::int64_t first_row,
                                     std::int64_t rows) {
  const auto element = static_cast<std::int64_t>(c10::elementSize(type_));
  const std::int64_t most = Primitives::row_alignment;
  for (std::int64_t first = 0; first < rows; first += most) {
    const std::int64_t count = std::min(most, rows - first);
    pieces_.push_back(
        {count * weight.inputs * element, [this, name, weight, first_row, first, count]() -> Result<void> {
           at::Tensor band = at::empty({weight.inputs, count}, type_);
           auto read =
               source_.read(name, {.first_column = first, .columns = count}, tensor::from_torch(type_), bytes_of(band));
           if (!read) return read;
           tensor::Weight target = weight;
           ops_.primitives->fill_rows(target, first_row + first, band.t().contiguous());
           return {};
         }});
  }
}

at::Tensor ParameterLoader::vector(const std::vector<Parameter::Piece>& pieces, ParameterId& id) {
  Parameter parameter;
  parameter.pieces = pieces;
  id = number(std::move(parameter));
  Parameter& made = parameters_.back();
  made.vector =
      at::empty({memory_ == Memory::now ? made.rows : 0}, at::TensorOptions().dtype(type_).device(ops_.device));
  if (memory_ == Memory::later) return made.vector;
  std::int64_t first = 0;
  for (const auto& [name, rows] : pieces) {
    add_vector(name, made.vector.narrow(0, first, rows));
    first += rows;
  }
  return made.vector;
}

void ParameterLoader::add_vector(const std::string& name, const at::Tensor& values) {
  pieces_.push_back({static_cast<std::int64_t>(values.nbytes()), [this, name, values]() -> Result<void> {
                       at::Tensor host = at::empty(values.sizes(), type_);
                       auto read = source_.read(name, {}, tensor::from_torch(type_), bytes_of(host));
                       if (!read) return read;
                       values.copy_(host);
                       return {};
                     }});
}

Linear ParameterLoader::linear(const std::vector<Parameter::Piece>& weights,
                               const std::vector<Parameter::Piece>& biases, std::int64_t inputs, bool transposed) {
  Parameter matrix;
  matrix.pieces = weights;
  std::int64_t outputs = 0;
  for (const Parameter::Piece& piece : weights) outputs += piece.rows;
  matrix.columns = inputs;
  matrix.transposed = transposed;
  matrix.weight = new_weight(outputs, inputs);
  Linear linear;
  linear.weight = matrix.weight;
  std::int64_t first = 0;
  for (const auto& [name, rows] : weights) {
    transposed ? add_transposed(name, linear.weight, first, rows) : add_rows(name, linear.weight, first, rows);
    first += rows;
  }
  linear.weight_id = number(std::move(matrix));
  if (!biases.empty()) linear.bias = vector(biases, linear.bias_id);
  return linear;
}

Result<void> ParameterLoader::run(int threads, const std::function<void(const LoadProgress&)>& progress) {
  LoadProgress sum;
  for (const Piece& piece : pieces_) sum.total += piece.bytes;
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // of sum, failure and progress
  std::optional<Error> failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < pieces_.size(); i = next++) {
      const auto read = read_piece(pieces_[i].read);
      const std::lock_guard lock(mutex);
      if (!read && !failure) failure = read.error();
      if (failure) return;
      sum.done += pieces_[i].bytes;
      if (progress) progress(sum);
    }
  };
  {
    std::vector<std::jthread> readers;
    for (int i = 1; i < threads; ++i) readers.emplace_back(work);
    work();
  }
  pieces_.clear();
  if (failure) return *failure;
  return {};
}

}  // namespace muster::model

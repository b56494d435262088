#include "checkpoint/training_parameters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

#include "checkpoint/number_conversion.hpp"
#include "checkpoint/slice_bounds.hpp"
#include "checkpoint/stored_columns.hpp"
#include "checkpoint/tensor_directory.hpp"

namespace muster::checkpoint {
namespace {

constexpr std::size_t most_elements_at_once = std::size_t{1} << 16;

class TrainingParameters : public TensorSource {
 public:
  TrainingParameters(TrainingCheckpoint checkpoint, const spec::ModelShape& shape)
      : checkpoint_(std::move(checkpoint)) {
    for (const LogicalTensor& tensor : checkpoint_.tensors())
      directory_.add({tensor.name, model_dimensions(tensor), spec::name(spec::ElementType::float32),
                      spec::ElementType::float32,
                      static_cast<std::uint64_t>(tensor.dimensions.elements()) * sizeof(float)});
    for (std::size_t i = 0; i < shape.tensors.size(); ++i)
      if (const auto first = shape.tensors[i].same_as)
        directory_.add_name(shape.path(spec::TensorId{i}), shape.path(*first));
  }

  std::span<const TensorEntry> tensors() const override { return directory_.entries(); }
  const TensorEntry* find(std::string_view name) const override {
    const auto number = directory_.find(name);
    return number ? &directory_.at(*number) : nullptr;
  }
  Result<void> read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                    std::span<std::byte> out) const override {
    const TensorEntry* entry = find(name);
    if (entry == nullptr) return no_such_tensor(name);
    if (!is_convertible(as))
      return Error{Error::Kind::bad_input, fmt::format("{} cannot be read as {}", name, spec::name(as)), ""};
    const auto bounds = check_slice(*entry, slice, as, out.size());
    if (!bounds) return bounds.error();
    if (checkpoint_.find(entry->name)->transposed) return read_transposed(entry->name, *bounds, as, out);
    const auto element = static_cast<std::size_t>(spec::bytes_per_element(as));
    const std::int64_t run = bounds->whole_rows() ? bounds->elements() : bounds->columns;  // that lie together
    std::int64_t first = bounds->first_row * bounds->tensor_columns + bounds->first_column;
    for (; !out.empty(); first += bounds->tensor_columns) {
      const auto part = out.first(static_cast<std::size_t>(run) * element);
      if (auto done = convert(entry->name, first, as, part); !done) return done;
      out = out.subspan(part.size());
    }
    return {};
  }
  std::uint64_t bytes_read() const override { return bytes_read_.load(std::memory_order_relaxed); }

 private:
  // Rows of the model's tensor are columns of the checkpoint's.
  Result<void> read_transposed(const std::string& name, const SliceBounds& bounds, spec::ElementType as,
                               std::span<std::byte> out) const {
    const std::int64_t step = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(most_elements_at_once) / std::max<std::int64_t>(1, bounds.rows));
    std::vector<float> stored(static_cast<std::size_t>(std::min(step, bounds.columns) * bounds.rows));
    for (std::int64_t column = 0; column < bounds.columns; column += step) {
      const std::int64_t count = std::min(step, bounds.columns - column);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto part =
            std::span(stored).subspan(static_cast<std::size_t>(i * bounds.rows), static_cast<std::size_t>(bounds.rows));
        const std::int64_t first = (bounds.first_column + column + i) * bounds.tensor_rows + bounds.first_row;
        if (auto done = checkpoint_.read(name, parameter_state, first, part); !done) return done;
        bytes_read_.fetch_add(part.size_bytes(), std::memory_order_relaxed);
      }
      put_columns({stored.data(), bounds.rows, column, count}, bounds, as, out);
    }
    return {};
  }

  Result<void> convert(std::string_view name, std::int64_t first, spec::ElementType as,
                       std::span<std::byte> out) const {
    const auto element = static_cast<std::size_t>(spec::bytes_per_element(as));
    std::vector<float> numbers(std::min(most_elements_at_once, out.size() / element));
    while (!out.empty()) {
      const auto part = std::span(numbers).first(std::min(numbers.size(), out.size() / element));
      if (auto done = checkpoint_.read(name, parameter_state, first, part); !done) return done;
      convert_numbers(spec::ElementType::float32, std::as_bytes(part), as, out.first(part.size() * element));
      bytes_read_.fetch_add(part.size_bytes(), std::memory_order_relaxed);
      out = out.subspan(part.size() * element);
      first += static_cast<std::int64_t>(part.size());
    }
    return {};
  }

  TrainingCheckpoint checkpoint_;
  TensorDirectory directory_;
  mutable std::atomic<std::uint64_t> bytes_read_ = 0;
};

}  // namespace

Result<void> check_same_tensors(const TrainingCheckpoint& checkpoint, std::span<const LogicalTensor> wanted) {
  const auto another = [&](const std::string& what) {
    return Error{Error::Kind::bad_input, fmt::format("{} is of another model: {}", checkpoint.path().string(), what),
                 "resume with the model and the adapters that it was saved with"};
  };
  for (const LogicalTensor& tensor : wanted) {
    const LogicalTensor* found = checkpoint.find(tensor.name);
    if (found == nullptr) return another(fmt::format("it has no {}", tensor.name));
    if (found->dimensions != tensor.dimensions || found->transposed != tensor.transposed)
      return another(fmt::format("{} is [{}]{} there, and [{}]{} here", tensor.name,
                                 fmt::join(found->dimensions.span(), ", "), found->transposed ? " transposed" : "",
                                 fmt::join(tensor.dimensions.span(), ", "), tensor.transposed ? " transposed" : ""));
  }
  if (wanted.size() != checkpoint.tensors().size())
    return another(fmt::format("it has {} trained tensors, and the model {}", checkpoint.tensors().size(), wanted.size()));
  return {};
}

Result<std::unique_ptr<TensorSource>> training_parameters(TrainingCheckpoint checkpoint,
                                                          const spec::ModelShape& shape) {
  if (const auto same = check_same_tensors(checkpoint, trained_tensors(shape, {})); !same) return same.error();
  return std::unique_ptr<TensorSource>(std::make_unique<TrainingParameters>(std::move(checkpoint), shape));
}

}  // namespace muster::checkpoint

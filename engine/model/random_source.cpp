#include "model/random_source.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "base/bit_mix.hpp"
#include "checkpoint/adapters/adapted_source.hpp"
#include "spec/model/model_shape.hpp"
#include "tensor/element_types.hpp"
#include "tensor/torch.hpp"

namespace muster::model {
namespace {

using checkpoint::TensorEntry;
using checkpoint::TensorSlice;

// work(begin, end) over the rows, on as many threads as torch has and the numbers are worth.
template <class Work>
void in_threads(std::int64_t rows, std::int64_t numbers, const Work& work) {
  constexpr std::int64_t of_a_thread = 1 << 18;
  const std::int64_t threads = std::clamp<std::int64_t>(numbers / of_a_thread, 1, at::get_num_threads());
  std::vector<std::jthread> helpers;
  for (std::int64_t i = 1; i < threads; ++i)
    helpers.emplace_back([&work, begin = rows * i / threads, end = rows * (i + 1) / threads] { work(begin, end); });
  work(0, rows / threads);
}

std::uint64_t hash_of(std::string_view name, std::uint64_t seed) {
  std::uint64_t state = mix_bits(seed + 0x9e3779b97f4a7c15u);
  for (const char letter : name) state = mix_bits(state ^ static_cast<unsigned char>(letter));
  return state;
}

// A tensor of one number, of known ones, or of numbers that are spread evenly from -bound to bound.
struct RandomTensor {
  std::string name;
  spec::Dimensions dimensions;
  std::optional<float> constant;
  float bound = 0;
  at::Tensor known = {};  // float32 [rows], of a vector
};

class RandomSource final : public checkpoint::TensorSource {
 public:
  RandomSource(std::vector<RandomTensor> tensors, std::uint64_t seed) : tensors_(std::move(tensors)), seed_(seed) {
    for (const RandomTensor& tensor : tensors_) {
      TensorEntry entry;
      entry.name = tensor.name;
      entry.dimensions = tensor.dimensions;
      entry.stored_as = "random";
      entry.element_type = spec::ElementType::float32;
      entries_.push_back(std::move(entry));
    }
    for (const TensorEntry& entry : entries_) by_name_[entry.name] = &entry;
  }
  // A second name of a tied tensor.
  void add_name(std::string name, std::string_view first) { by_name_[std::move(name)] = find(first); }

  std::span<const TensorEntry> tensors() const override { return entries_; }
  const TensorEntry* find(std::string_view name) const override {
    const auto entry = by_name_.find(name);
    return entry == by_name_.end() ? nullptr : entry->second;
  }
  Result<void> read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                    std::span<std::byte> out) const override;
  std::uint64_t bytes_read() const override { return 0; }

 private:
  std::vector<RandomTensor> tensors_;
  std::uint64_t seed_;
  std::vector<TensorEntry> entries_;  // of each of them
  std::map<std::string, const TensorEntry*, std::less<>> by_name_;
};

Result<void> RandomSource::read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                                std::span<std::byte> out) const {
  const TensorEntry* entry = find(name);
  if (entry == nullptr) return Error{Error::Kind::failed, fmt::format("the model has no tensor {}", name), ""};
  const auto& sizes = entry->dimensions.sizes;
  const std::int64_t width = entry->dimensions.rank > 1 ? sizes[1] : 1;
  const std::int64_t rows = slice.rows.value_or(sizes[0] - slice.first_row);
  const std::int64_t columns = slice.columns.value_or(width - slice.first_column);
  const std::size_t bytes = static_cast<std::size_t>(rows * columns * spec::bytes_per_element(as));
  if (bytes != out.size())
    return Error{Error::Kind::failed, fmt::format("{}: {} bytes asked for, {} there", name, out.size(), bytes), ""};
  at::Tensor numbers = as == spec::ElementType::float32 ? at::from_blob(out.data(), {rows, columns}, at::kFloat)
                                                        : at::empty({rows, columns}, at::kFloat);
  auto* const values = numbers.mutable_data_ptr<float>();
  const auto& [own_name, dimensions, constant, bound, known] =
      tensors_[static_cast<std::size_t>(entry - entries_.data())];
  const std::uint64_t base = hash_of(own_name, seed_);
  in_threads(rows, rows * columns, [&, bound = bound](std::int64_t begin, std::int64_t end) {
    float* number = values + begin * columns;
    for (std::int64_t row = slice.first_row + begin; row < slice.first_row + end; ++row)
      for (std::int64_t column = slice.first_column; column < slice.first_column + columns; ++column) {
        const auto place = static_cast<std::uint64_t>(row * width + column);
        const auto bits = static_cast<std::int32_t>(mix_bits(base + place * 0x9e3779b97f4a7c15u) >> 32);
        *number++ = static_cast<float>(bits) * 0x1p-31F * bound;
      }
  });
  if (constant) numbers.fill_(*constant);
  if (known.defined()) numbers.copy_(known.narrow(0, slice.first_row, rows).unsqueeze(1));
  if (as != spec::ElementType::float32) at::from_blob(out.data(), {rows, columns}, tensor::to_torch(as)).copy_(numbers);
  return {};
}

RandomTensor random_tensor(const spec::ModelShape& shape, spec::TensorId id) {
  const spec::TensorShape& tensor = shape.at(id);
  RandomTensor made{shape.path(id), tensor.dimensions, std::nullopt, 0.02F * std::sqrt(3.0F)};
  if (tensor.bias) made.constant = 0;
  else if (spec::is_norm(tensor.role)) made.constant = 1;
  return made;
}

}  // namespace

std::unique_ptr<checkpoint::TensorSource> make_random_source(const spec::ModelConfig& config, std::uint64_t seed) {
  const spec::ModelShape shape = spec::build_shape(config, spec::ElementType::float32);
  std::vector<RandomTensor> tensors;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const spec::TensorShape& tensor = shape.tensors[i];
    if (tensor.kind == spec::TensorKind::derived || tensor.same_as) continue;
    tensors.push_back(random_tensor(shape, spec::TensorId{i}));
  }
  auto source = std::make_unique<RandomSource>(std::move(tensors), seed);
  for (std::size_t i = 0; i < shape.tensors.size(); ++i)
    if (const auto first = shape.tensors[i].same_as)
      source->add_name(shape.path(spec::TensorId{i}), shape.path(*first));
  return source;
}

std::unique_ptr<checkpoint::TensorSource> with_fresh_head(std::unique_ptr<checkpoint::TensorSource> source,
                                                          const spec::ModelShape& shape, std::uint64_t seed) {
  std::vector<RandomTensor> tensors;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i)
    if (shape.tensors[i].role == spec::TensorRole::score) tensors.push_back(random_tensor(shape, spec::TensorId{i}));
  std::vector<std::unique_ptr<checkpoint::TensorSource>> fresh;
  fresh.push_back(std::make_unique<RandomSource>(std::move(tensors), seed));
  return checkpoint::with_adapters(std::move(source), std::move(fresh));
}

std::unique_ptr<checkpoint::TensorSource> make_fresh_adapters(std::span<const Parameter> parameters,
                                                              RowLengths magnitudes, std::uint64_t seed) {
  std::vector<RandomTensor> tensors;
  for (auto& [name, lengths] : magnitudes)
    tensors.push_back({name, {{lengths.size(0)}, 1}, std::nullopt, 0, std::move(lengths)});
  for (const Parameter& parameter : parameters) {
    if (!parameter.trained || !parameter.columns) continue;
    const std::int64_t inputs = *parameter.columns;
    for (const auto& [name, rows] : parameter.pieces) {
      if (!name.ends_with(".lora_A.weight") && !name.ends_with(".lora_B.weight")) continue;
      RandomTensor made{name, {{rows, inputs}, 2}, std::nullopt, 1 / std::sqrt(static_cast<float>(inputs))};
      if (name.ends_with(".lora_B.weight")) made.constant = 0;
      tensors.push_back(std::move(made));
    }
  }
  return std::make_unique<RandomSource>(std::move(tensors), seed);
}

}  // namespace muster::model

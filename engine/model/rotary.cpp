#include "model/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster::model {
namespace {

using spec::Rope;
using spec::RopeKind;

constexpr std::int64_t smallest_table = 1024;
constexpr std::size_t most_tables = 16;

// base ^ (2i / head_size), in the float32 operations of transformers: a last bit here is a visible angle at position
// 100,000.
at::Tensor wavelengths(double base, std::int64_t head_size) {
  const at::Tensor exponents = at::arange(0, head_size, 2, at::kLong).to(at::kFloat) / head_size;
  return at::pow(at::Scalar(base), exponents);
}

at::Tensor standard_frequencies(double base, std::int64_t head_size) {
  return at::reciprocal(wavelengths(base, head_size));
}

at::Tensor as_tensor(const std::vector<double>& values) {
  return at::tensor(values, at::TensorOptions().dtype(at::kDouble)).to(at::kFloat);
}

at::Tensor llama3_frequencies(const Rope& rope, std::int64_t head_size) {
  const at::Tensor frequencies = standard_frequencies(rope.theta, head_size);
  const auto original = static_cast<double>(rope.original_positions);
  const double low = rope.low_frequency_factor, high = rope.high_frequency_factor;
  const at::Tensor wavelength = at::reciprocal(frequencies) * (2 * std::numbers::pi);
  const at::Tensor slow = wavelength > original / low;
  const at::Tensor fast = wavelength < original / high;
  const at::Tensor kept = at::where(slow, frequencies / rope.factor, frequencies);
  const at::Tensor smooth = (at::reciprocal(wavelength) * original - low) / (high - low);
  const at::Tensor smoothed = (1 - smooth) * kept / rope.factor + smooth * kept;
  return at::where(at::logical_not(slow) * at::logical_not(fast), smoothed, kept);
}

double yarn_scale(double factor, double mscale = 1) { return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1; }

double yarn_attention_factor(const Rope& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0)
    return yarn_scale(rope.factor, *rope.mscale) / yarn_scale(rope.factor, *rope.mscale_all_dim);
  return yarn_scale(rope.factor);
}

at::Tensor yarn_frequencies(const Rope& rope, std::int64_t head_size) {
  const auto size = static_cast<double>(head_size);
  // The pair of elements that turns so often within the original positions.
  const auto turning = [&](double rotations) {
    return size * std::log(static_cast<double>(rope.original_positions) / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = turning(rope.beta_fast), high = turning(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  const at::Tensor ramp = at::clamp((at::arange(head_size / 2, at::kFloat) - low) / (high - low), 0, 1);
  const at::Tensor turns = wavelengths(rope.theta, head_size);
  const at::Tensor kept = 1 - ramp;
  return at::reciprocal(rope.factor * turns) * (1 - kept) + at::reciprocal(turns) * kept;
}

at::Tensor dynamic_frequencies(const Rope& rope, std::int64_t head_size, std::int64_t positions, std::int64_t length) {
  const auto seen = static_cast<double>(std::max(length, positions));
  const auto size = static_cast<double>(head_size);
  const double grown = rope.factor * seen / static_cast<double>(positions) - (rope.factor - 1);
  return standard_frequencies(rope.theta * std::pow(grown, size / (size - 2)), head_size);
}

double longrope_attention_factor(const Rope& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.factor <= 1) return 1;
  return std::sqrt(1 + std::log(rope.factor) / std::log(static_cast<double>(rope.original_positions)));
}

at::Tensor longrope_frequencies(const Rope& rope, std::int64_t head_size, std::int64_t length) {
  const auto& factors = length > rope.original_positions ? rope.long_factors : rope.short_factors;
  return at::reciprocal(as_tensor(factors) * wavelengths(rope.theta, head_size));
}

at::Tensor frequencies_of(const Rope& rope, std::int64_t head_size, std::int64_t positions, std::int64_t length) {
  switch (rope.kind) {
    case RopeKind::standard:
      return standard_frequencies(rope.theta, head_size);
    case RopeKind::linear:
      return standard_frequencies(rope.theta, head_size) / rope.factor;
    case RopeKind::dynamic:
      return dynamic_frequencies(rope, head_size, positions, length);
    case RopeKind::yarn:
      return yarn_frequencies(rope, head_size);
    case RopeKind::longrope:
      return longrope_frequencies(rope, head_size, length);
    case RopeKind::llama3:
      return llama3_frequencies(rope, head_size);
  }
  return {};
}

double attention_factor_of(const Rope& rope) {
  if (rope.kind == RopeKind::yarn) return yarn_attention_factor(rope);
  if (rope.kind == RopeKind::longrope) return longrope_attention_factor(rope);
  return 1;
}

}  // namespace

RotaryFrequencies rotary_frequencies(const Rope& rope, std::int64_t head_size, std::int64_t positions,
                                     std::int64_t length) {
  const at::Tensor frequencies = frequencies_of(rope, head_size, positions, length).contiguous();
  const float* data = frequencies.const_data_ptr<float>();
  return {{data, data + frequencies.numel()}, attention_factor_of(rope)};
}

RotaryTable::RotaryTable(Rope rope, std::int64_t head_size, std::int64_t positions, at::Device device)
    : rope_(std::move(rope)), head_size_(head_size), model_positions_(positions), device_(device) {}

std::int64_t RotaryTable::table_key(std::int64_t length) const {
  if (rope_.kind == RopeKind::dynamic) return std::max(length, model_positions_);
  if (rope_.kind == RopeKind::longrope) return length > rope_.original_positions ? 1 : 0;
  return 0;
}

// Angles are float32 products, as transformers has them; their cosines are rounded from double, so that an entry does
// not depend on how many are computed at once.
RotaryTable::Table& RotaryTable::table_for(std::int64_t length, std::int64_t positions) {
  const std::int64_t key = table_key(length);
  if (tables_.size() >= most_tables && !tables_.contains(key)) tables_.clear();
  Table& table = tables_[key];
  if (table.positions >= positions) return table;
  if (table.positions == 0) table.frequencies = rotary_frequencies(rope_, head_size_, model_positions_, length);
  const std::int64_t half = head_size_ / 2;
  const std::int64_t count = std::max({positions, smallest_table, 2 * table.positions});
  at::Tensor cosines = at::empty({count, half}, at::kFloat), sines = at::empty_like(cosines);
  auto* cosine = cosines.mutable_data_ptr<float>();
  auto* sine = sines.mutable_data_ptr<float>();
  const auto factor = static_cast<float>(table.frequencies.attention_factor);
  for (std::int64_t position = 0; position < count; ++position)
    for (const float frequency : table.frequencies.inverse) {
      const float angle = static_cast<float>(position) * frequency;
      *cosine++ = static_cast<float>(std::cos(static_cast<double>(angle))) * factor;
      *sine++ = static_cast<float>(std::sin(static_cast<double>(angle))) * factor;
    }
  cosines = cosines.to(device_);
  sines = sines.to(device_);
  // Only now, so that a table is whole or not there where memory runs out.
  table.cosines = std::move(cosines);
  table.sines = std::move(sines);
  table.positions = count;
  return table;
}

RotaryRows RotaryTable::rows(const Batch& batch, const at::Tensor& positions) {
  std::int64_t longest = 0;
  for (const SequencePart& part : batch.parts) longest = std::max(longest, part.position + part.rows);
  if (reserve(longest)) return rows(positions);
  std::vector<at::Tensor> cosines, sines;
  for (const SequencePart& part : batch.parts) {
    const Table& table = table_for(part.rope_length, part.position + part.rows);
    cosines.push_back(table.cosines.narrow(0, part.position, part.rows));
    sines.push_back(table.sines.narrow(0, part.position, part.rows));
  }
  return {at::cat(cosines), at::cat(sines)};
}

RotaryRows RotaryTable::rows(const at::Tensor& positions) {
  const Table& table = tables_.at(0);
  return {table.cosines.index_select(0, positions), table.sines.index_select(0, positions)};
}

bool RotaryTable::reserve(std::int64_t positions) {
  if (rope_.kind == RopeKind::dynamic || rope_.kind == RopeKind::longrope) return false;
  table_for(positions, positions);
  return true;
}

}  // namespace muster::model

#include "spec/model/gguf_rope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "system/regular_file.hpp"

namespace muster::spec {
namespace {

constexpr std::string_view tensor_name = "rope_freqs.weight";
constexpr std::int64_t llama3_positions = 8192;  // what every Llama 3 was originally trained with

Error bad_factors(std::string_view source, std::string what) {
  return {Error::Kind::bad_input, fmt::format("{}: {} {}", source, tensor_name, what),
          "use the model's Hugging Face folder, whose config.json names its rope scaling"};
}

// What llama3's scaling divides the frequency of one pair by.
double llama3_divisor(const Rope& rope, double frequency) {
  const double turns = static_cast<double>(rope.original_positions) * frequency / (2 * std::numbers::pi);
  if (turns > rope.high_frequency_factor) return 1;
  if (turns < rope.low_frequency_factor) return rope.factor;
  const double kept = (turns - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
  return 1 / ((1 - kept) / rope.factor + kept);
}

bool gives(const Rope& rope, const std::vector<float>& factors, std::int64_t head_size) {
  constexpr double accepted = 1e-4;  // the factors went through float32
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(head_size);
    const double wanted = llama3_divisor(rope, std::pow(rope.theta, -exponent));
    if (!(std::abs(static_cast<double>(factors[i]) - wanted) <= accepted * wanted)) return false;
  }
  return true;
}

}  // namespace

Result<std::vector<float>> read_rope_factors(const GgufFiles& files) {
  const auto tensor = std::ranges::find(files.header.tensors, tensor_name, &GgufTensor::name);
  if (tensor == files.header.tensors.end()) return std::vector<float>{};
  const std::filesystem::path& file = files.paths[tensor->file];
  if (tensor->type != GgufType::f32 || tensor->dimensions.elements() > largest::attention_width)
    return bad_factors(file.string(),
                       fmt::format("is {} with {} elements", name(tensor->type), tensor->dimensions.elements()));
  const auto opened = RegularFile::open(file);
  if (!opened) return opened.error();
  std::vector<float> factors(static_cast<std::size_t>(tensor->dimensions.elements()));
  if (const auto read = opened->read_at(tensor->begin, std::as_writable_bytes(std::span(factors))); !read)
    return read.error();
  return factors;
}

Result<void> take_rope_factors(const std::vector<float>& factors, std::string_view source, ModelConfig& config) {
  if (std::ranges::all_of(factors, [](float factor) { return factor == 1.0F; })) return {};
  if (static_cast<std::int64_t>(factors.size()) != config.head_size / 2)
    return bad_factors(source, fmt::format("has {} factors for heads of {}", factors.size(), config.head_size));
  Rope rope = config.rope;
  rope.kind = RopeKind::llama3;
  rope.factor = static_cast<double>(*std::ranges::max_element(factors));
  rope.original_positions = llama3_positions;
  if (config.rope.kind != RopeKind::standard || !gives(rope, factors, config.head_size))
    return bad_factors(source, fmt::format("holds factors from {} to {} that are not those of Llama 3's scaling",
                                           *std::ranges::min_element(factors), *std::ranges::max_element(factors)));
  config.rope = rope;
  return {};
}

}  // namespace muster::spec

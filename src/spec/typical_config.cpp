#include <algorithm>
#include <array>
#include <cmath>

#include "spec/model_config.hpp"

namespace muster::spec {
namespace {

struct Width {
  double parameters;
  double hidden;
};

// Hidden sizes of public models by their size, and one beyond on either side. Between them the logarithm of one is
// linear in the logarithm of the other.
constexpr std::array widths{
    Width{1e6, 128},   Width{15e6, 288},  Width{135e6, 576},   Width{1.1e9, 2048}, Width{7e9, 4096},
    Width{13e9, 5120}, Width{70e9, 8192}, Width{405e9, 16384}, Width{1e13, 65536},
};

double interpolated_width(double parameters) {
  std::size_t i = 1;
  while (i + 1 < widths.size() && parameters > widths[i].parameters) ++i;
  const Width &low = widths[i - 1], &high = widths[i];
  const double part = std::log(parameters / low.parameters) / std::log(high.parameters / low.parameters);
  return low.hidden * std::pow(high.hidden / low.hidden, part);
}

std::int64_t rounded(double value, std::int64_t multiple) {
  return std::max(multiple, static_cast<std::int64_t>(std::llround(value / static_cast<double>(multiple))) * multiple);
}

// The embedding takes a third at most: below some 40M parameters the vocabulary is smaller than that of public models.
std::int64_t vocabulary_of(std::int64_t parameters, std::int64_t hidden) {
  const std::int64_t usual = parameters < 14'000'000'000 ? 32000 : 128256;
  const std::int64_t fitting = parameters / 3 / hidden / 64 * 64;
  return std::clamp(fitting, std::int64_t{64}, usual);
}

// Parameters of everything outside of the blocks, and of one block but for its feed-forward part.
std::int64_t outside(const ModelConfig& config) {
  return config.vocabulary * config.hidden * (config.tied ? 1 : 2) + config.hidden;
}
std::int64_t block_base(const ModelConfig& config) {
  return 2 * config.hidden * (config.query_width() + config.kv_width()) + 2 * config.hidden;
}

}  // namespace

ModelConfig typical_config(std::int64_t parameters) {
  constexpr std::int64_t grouped_from = 8'000'000'000;
  const bool grouped = parameters >= grouped_from;  // 8 heads of keys, as public models of these sizes have
  ModelConfig config;
  config.head_size = parameters < 2'000'000'000 ? 64 : 128;
  config.hidden = rounded(interpolated_width(static_cast<double>(parameters)), grouped ? 8 * config.head_size : 128);
  config.heads = config.hidden / config.head_size;
  config.kv_heads = grouped ? 8 : config.heads;
  config.tied = parameters < 1'000'000'000;
  config.vocabulary = vocabulary_of(parameters, config.hidden);
  config.positions = parameters < 2'000'000'000 ? 2048 : grouped ? 8192 : 4096;

  // As many blocks of the usual proportions as come nearest; then the feed-forward width takes up the difference, in
  // steps of at most a hundredth of a block.
  const double usual_ratio = grouped ? 3.4 : 2.7;
  const std::int64_t rest = parameters - outside(config);
  const auto usual_width = static_cast<std::int64_t>(usual_ratio * static_cast<double>(config.hidden));
  const double usual_block = static_cast<double>(block_base(config) + 3 * config.hidden * usual_width);
  config.layers = std::max<std::int64_t>(1, std::llround(static_cast<double>(rest) / usual_block));
  const std::int64_t step = std::clamp<std::int64_t>(config.hidden / 32 / 4 * 4, 4, 128);
  const std::int64_t width = (rest / config.layers - block_base(config)) / (3 * config.hidden);
  config.intermediate = width / step * step;
  return config;
}

}  // namespace muster::spec

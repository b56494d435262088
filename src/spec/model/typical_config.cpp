#include <algorithm>
#include <cmath>

#include "spec/model/model_config.hpp"
#include "spec/model/published_models.hpp"

namespace muster::spec {
namespace {

// How the width of public models grows with their size, from 135M to 405B.
constexpr double width_exponent = 0.4;

std::int64_t rounded(double value, std::int64_t multiple) {
  return std::max(multiple, static_cast<std::int64_t>(std::llround(value / static_cast<double>(multiple))) * multiple);
}

// The embedding takes at most a third: models far smaller than public ones have a smaller vocabulary.
std::int64_t fitting_vocabulary(std::int64_t usual, std::int64_t parameters, std::int64_t hidden) {
  return std::clamp(parameters / 3 / hidden / 64 * 64, std::int64_t{64}, usual);
}

// Parameters of everything outside the blocks, and of one block except its feed-forward part.
std::int64_t outside(const ModelConfig& config) {
  return config.vocabulary * config.hidden * (config.tied ? 1 : 2) + config.hidden;
}
std::int64_t block_base(const ModelConfig& config) {
  return 2 * config.hidden * (config.query_width() + config.kv_width()) + 2 * config.hidden;
}

}  // namespace

ModelConfig typical_config(std::int64_t parameters) {
  const PublishedModel& like = nearest_published(parameters);
  const double scale = static_cast<double>(parameters) / static_cast<double>(like.parameters);
  ModelConfig config;
  config.head_size = like.head_size;
  config.hidden =
      rounded(static_cast<double>(like.hidden) * std::pow(scale, width_exponent), like.head_size * like.kv_heads);
  config.heads = config.hidden / config.head_size;
  config.kv_heads = like.kv_heads;
  config.tied = like.tied;
  config.vocabulary = fitting_vocabulary(like.vocabulary, parameters, config.hidden);
  config.positions = like.positions;

  // The number of blocks of the usual proportions that comes nearest; the feed-forward width takes up the difference,
  // in steps of at most a hundredth of a block.
  const std::int64_t rest = parameters - outside(config);
  const std::int64_t usual_width = like.intermediate * config.hidden / like.hidden;
  const double usual_block = static_cast<double>(block_base(config) + 3 * config.hidden * usual_width);
  config.layers = std::max<std::int64_t>(1, std::llround(static_cast<double>(rest) / usual_block));
  const std::int64_t step = std::clamp<std::int64_t>(config.hidden / 32 / 4 * 4, 4, 128);
  const std::int64_t width = (rest / config.layers - block_base(config)) / (3 * config.hidden);
  config.intermediate = width / step * step;
  return config;
}

}  // namespace muster::spec

// Published models by size: what a model known only by its size is assumed to look like.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace muster::spec {

struct PublishedModel {
  std::string_view name;  // "Llama 3.1 8B"
  std::int64_t parameters = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t head_size = 0;
  std::int64_t kv_heads = 0;
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;
  bool tied = false;
};

// Smallest first.
std::span<const PublishedModel> published_models();

// The one whose size differs by the smallest factor.
const PublishedModel& nearest_published(std::int64_t parameters);

}  // namespace muster::spec

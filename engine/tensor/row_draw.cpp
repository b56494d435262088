#include "tensor/row_draw.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "kernels/draw_weight.hpp"

namespace muster::tensor {
namespace {

constexpr int group_bits = 14;

std::uint64_t sum_of(std::span<const std::uint64_t> weights) {
  return std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
}

}  // namespace

// Groups are in the order of the logits; equal ones, both zeros included, share a group.
std::size_t RowCut::group_of(float logit) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0F);
  const std::uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return ordered >> (32 - group_bits);
}

void RowCut::group(std::span<const float> judged, std::span<const std::uint64_t> weights) {
  groups_.assign(std::size_t{1} << group_bits, {});
  for (std::size_t token = 0; token < judged.size(); ++token) {
    if (std::isnan(judged[token])) continue;
    Group& group = groups_[group_of(judged[token])];
    ++group.count;
    group.weight += weights[token];
  }
}

void RowCut::keep_highest(std::int64_t count, std::span<const float> judged, std::span<std::uint64_t> weights) {
  group(judged, weights);
  std::size_t last = groups_.size();  // the group of the last one that stays
  while (last > 0 && count > 0) count -= groups_[--last].count;
  if (count > 0) return;
  members_.clear();
  for (std::size_t token = 0; token < judged.size(); ++token)
    if (!std::isnan(judged[token]) && group_of(judged[token]) == last) members_.push_back(token);
  const auto lowest = members_.end() - 1 + count;  // -count of them are too many
  std::ranges::nth_element(members_, lowest, [&](std::size_t a, std::size_t b) { return judged[a] > judged[b]; });
  const float least = judged[*lowest];
  for (std::size_t token = 0; token < judged.size(); ++token)
    if (judged[token] < least) weights[token] = 0;
}

void RowCut::keep_likely(double share, std::span<const float> judged, std::span<std::uint64_t> weights) {
  group(judged, weights);
  const double enough = share * static_cast<double>(sum_of(weights));
  std::uint64_t before = 0;  // in the groups above
  std::size_t last = groups_.size();
  while (last > 0) {
    const std::uint64_t through = before + groups_[--last].weight;
    if (static_cast<double>(through) >= enough) break;
    before = through;
  }
  members_.clear();
  for (std::size_t token = 0; token < judged.size(); ++token) {
    if (weights[token] == 0) continue;
    const std::size_t group = group_of(judged[token]);
    if (group < last) weights[token] = 0;
    if (group == last) members_.push_back(token);
  }
  std::ranges::sort(
      members_, [&](std::size_t a, std::size_t b) { return judged[a] != judged[b] ? judged[a] > judged[b] : a < b; });
  for (const std::size_t token : members_) {
    const bool stays = before == 0 || static_cast<double>(before) < enough;
    before += weights[token];
    if (!stays) weights[token] = 0;
  }
}

std::uint64_t RowCut::apply(const SamplingRules& rules, std::span<const float> judged,
                            std::span<std::uint64_t> weights) {
  if (rules.top_k > 0 && static_cast<std::size_t>(rules.top_k) < judged.size())
    keep_highest(rules.top_k, judged, weights);
  if (rules.top_p < 1) keep_likely(rules.top_p, judged, weights);
  if (rules.min_p > 0) {
    const double least = rules.min_p * kernels::certain_weight;
    for (std::uint64_t& weight : weights)
      if (static_cast<double>(weight) < least) weight = 0;
  }
  return sum_of(weights);
}

std::size_t draw_token(std::span<const std::uint64_t> weights, std::uint64_t total, double uniform) {
  const auto target = std::min(total - 1, static_cast<std::uint64_t>(uniform * static_cast<double>(total)));
  std::uint64_t sum = 0;
  for (std::size_t token = 0; token < weights.size(); ++token) {
    sum += weights[token];
    if (sum > target) return token;
  }
  return weights.size() - 1;
}

}  // namespace muster::tensor

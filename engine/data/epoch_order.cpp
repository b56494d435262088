#include "data/epoch_order.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/bit_mix.hpp"

namespace muster::data {
namespace {

// First-fit packing: a sample goes to the first of the open units that has room for it, and keeps that unit's number.
class Packer {
 public:
  explicit Packer(std::uint64_t room) : room_(room) {}

  // The number of the unit that gets a sample of this length.
  std::uint32_t place(std::uint64_t length) {
    for (Open& unit : open_)
      if (unit.used + length <= room_) {
        unit.used += length;
        return unit.number;
      }
    if (open_.size() == EpochOrder::most_open) open_.erase(std::ranges::max_element(open_, {}, &Open::used));
    open_.push_back({count_, length});
    return count_++;
  }
  std::uint32_t count() const { return count_; }

 private:
  struct Open {
    std::uint32_t number = 0;
    std::uint64_t used = 0;
  };
  std::uint64_t room_;
  std::vector<Open> open_;
  std::uint32_t count_ = 0;
};

}  // namespace

std::vector<std::uint32_t> shuffled_numbers(std::uint32_t count, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  const std::uint64_t key =
      mix_bits(mix_bits(seed + golden_step) ^ mix_bits(static_cast<std::uint64_t>(epoch) + 2 * golden_step));
  for (std::uint32_t left = count; left > 1; --left) {
    // 64 random bits for at most 2^32 choices: the bias is negligible.
    const std::uint64_t bits = mix_bits(key + left * golden_step);
    const auto chosen = static_cast<std::uint32_t>(bounded(bits, left));
    std::swap(numbers[left - 1], numbers[chosen]);
  }
  return numbers;
}

EpochOrder EpochOrder::make(std::span<const std::uint32_t> lengths, const OrderSettings& settings, std::int64_t epoch) {
  if (lengths.size() > 0xffffffffU) throw std::length_error("more than 2^32 samples");
  const auto count = static_cast<std::uint32_t>(lengths.size());
  if (settings.together > 1) return make_groups(count, settings, epoch);
  EpochOrder order;
  if (settings.shuffled) {
    order.samples_ = shuffled_numbers(count, settings.seed, epoch);
  } else {
    order.samples_.resize(count);
    std::iota(order.samples_.begin(), order.samples_.end(), 0U);
  }
  if (!settings.packing) {
    order.ends_.resize(count);
    std::iota(order.ends_.begin(), order.ends_.end(), std::uint64_t{1});
    return order;
  }
  Packer packer(static_cast<std::uint64_t>(settings.sequence_length));
  std::vector<std::uint32_t> unit_of;
  unit_of.reserve(count);
  for (const std::uint32_t sample : order.samples_) unit_of.push_back(packer.place(lengths[sample]));
  // Samples by unit, each unit's in the order of the epoch.
  order.ends_.assign(packer.count(), 0);
  for (const std::uint32_t unit : unit_of) ++order.ends_[unit];
  std::inclusive_scan(order.ends_.begin(), order.ends_.end(), order.ends_.begin());
  std::vector<std::uint64_t> next(order.ends_.size(), 0);
  for (std::size_t i = 1; i < next.size(); ++i) next[i] = order.ends_[i - 1];
  std::vector<std::uint32_t> sorted(count);
  for (std::size_t i = 0; i < unit_of.size(); ++i) sorted[next[unit_of[i]]++] = order.samples_[i];
  order.samples_ = std::move(sorted);
  return order;
}

EpochOrder EpochOrder::make_groups(std::uint32_t count, const OrderSettings& settings, std::int64_t epoch) {
  const auto together = static_cast<std::uint32_t>(settings.together);
  if (settings.packing || count % together != 0)
    throw std::invalid_argument("samples that belong together are neither packed nor parted");
  const OrderSettings alone{settings.seed, settings.shuffled, false, 0, 1};
  const EpochOrder groups = make(std::vector<std::uint32_t>(count / together, 1), alone, epoch);
  EpochOrder order;
  for (const std::uint32_t group : groups.samples_) {
    for (std::uint32_t i = 0; i < together; ++i) order.samples_.push_back(group * together + i);
    order.ends_.push_back(order.samples_.size());
  }
  return order;
}

std::span<const std::uint32_t> EpochOrder::unit(std::int64_t index) const {
  const auto place = static_cast<std::size_t>(index);
  const std::uint64_t begin = place == 0 ? 0 : ends_.at(place - 1);
  return std::span(samples_).subspan(begin, ends_.at(place) - begin);
}

}  // namespace muster::data

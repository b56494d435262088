#include "plan/layer_split.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <tuple>

namespace muster::plan {
namespace {

using Assignment = std::vector<std::size_t>;

// ---- the accounting once more, written from the header alone ----

std::vector<std::int64_t> used_bytes(const SplitRequest& request, const Assignment& device_of) {
  std::vector<std::int64_t> used;
  for (std::size_t device = 0; device < request.devices.size(); ++device) {
    std::int64_t sum = request.devices[device].fixed;
    std::int64_t workspace = 0;
    for (std::size_t unit = 0; unit < device_of.size(); ++unit) {
      if (device_of[unit] != device) continue;
      sum += request.units[unit].bytes;
      workspace = std::max(workspace, request.units[unit].workspace);
    }
    for (const SharedBytes& shared : request.shared)
      if (device_of[shared.second] == device && device_of[shared.first] != device) sum += shared.bytes;
    used.push_back(sum + workspace);
  }
  return used;
}

std::int64_t duplicated_bytes(const SplitRequest& request, const Assignment& device_of) {
  std::int64_t sum = 0;
  for (const SharedBytes& shared : request.shared)
    if (device_of[shared.second] != device_of[shared.first]) sum += shared.bytes;
  return sum;
}

bool is_used(const Assignment& device_of, std::size_t device) {
  return std::find(device_of.begin(), device_of.end(), device) != device_of.end();
}

bool within_limits(const SplitRequest& request, const Assignment& device_of) {
  const auto used = used_bytes(request, device_of);
  for (std::size_t i = 0; i < used.size(); ++i)
    if (is_used(device_of, i) && (request.devices[i].capacity == 0 || used[i] > request.devices[i].capacity))
      return false;
  return true;
}

// Compared as a fraction, without rounding.
struct Load {
  std::int64_t used = 0;
  std::int64_t capacity = 1;
  bool operator<(const Load& other) const { return used * other.capacity < other.used * capacity; }
  bool operator==(const Load& other) const { return used * other.capacity == other.used * capacity; }
};

Load largest_load(const SplitRequest& request, const Assignment& device_of, std::size_t first_device = 0) {
  const auto used = used_bytes(request, device_of);
  Load largest;
  for (std::size_t i = first_device; i < used.size(); ++i)
    if (is_used(device_of, i) && request.devices[i].place.kind == Place::Kind::gpu)
      largest = std::max(largest, Load{used[i], request.devices[i].capacity});
  return largest;
}

void each_assignment(const SplitRequest& request, const std::function<void(const Assignment&)>& visit) {
  Assignment device_of(request.units.size());
  const std::function<void(std::size_t, std::size_t)> choose = [&](std::size_t unit, std::size_t least) {
    if (unit == device_of.size()) return visit(device_of);
    for (std::size_t device = least; device < request.devices.size(); ++device) {
      device_of[unit] = device;
      choose(unit + 1, device);
    }
  };
  choose(0, 0);
}

// Units on disk or later, on cpu or later; then what the goal asks for.
struct Rank {
  std::vector<std::size_t> on_host;
  std::size_t on_first = 0;
  Load load;
  std::int64_t duplicated = 0;  // where there is one pair at most
  bool operator<(const Rank& other) const {
    return std::tie(on_host, on_first, load, duplicated) <
           std::tie(other.on_host, other.on_first, other.load, other.duplicated);
  }
};

Rank rank_of(const SplitRequest& request, const Assignment& device_of) {
  Rank rank;
  std::size_t gpus = 0;
  while (gpus < request.devices.size() && request.devices[gpus].place.kind == Place::Kind::gpu) ++gpus;
  for (std::size_t device = gpus; device < request.devices.size(); ++device)
    rank.on_host.push_back(static_cast<std::size_t>(
        std::count_if(device_of.begin(), device_of.end(), [&](std::size_t of) { return of >= device; })));
  const bool low = request.goal == SplitGoal::low_first && gpus > 1;
  if (low) rank.on_first = static_cast<std::size_t>(std::count(device_of.begin(), device_of.end(), 0U));
  rank.load = largest_load(request, device_of, low ? 1 : 0);
  if (request.shared.size() == 1) rank.duplicated = duplicated_bytes(request, device_of);
  return rank;
}

std::int64_t least_missing(const SplitRequest& request) {
  std::int64_t least = INT64_MAX;
  for (std::size_t device = 0; device < request.devices.size(); ++device) {
    SplitRequest larger = request;
    larger.devices[device].capacity = 1'000'000;
    each_assignment(larger, [&](const Assignment& device_of) {
      if (!within_limits(larger, device_of)) return;
      const auto needed = used_bytes(larger, device_of)[device] - request.devices[device].capacity;
      least = std::min(least, std::max<std::int64_t>(needed, 1));
    });
  }
  return least;
}

std::string told(const SplitRequest& request) {
  std::string text = fmt::format("goal {}", static_cast<int>(request.goal));
  for (const Unit& unit : request.units) text += fmt::format(" unit {}+{}", unit.bytes, unit.workspace);
  for (const SharedBytes& pair : request.shared)
    text += fmt::format(" shared {}-{}: {}", pair.first, pair.second, pair.bytes);
  for (const SplitDevice& device : request.devices)
    text += fmt::format(" device {} {} fixed {}", to_string(device.place), device.capacity, device.fixed);
  return text;
}

void expect_sequential(const SplitRequest& request, const Assignment& found, const Assignment& tried) {
  // Each device in order holds at least as many units as in any split that begins like it.
  EXPECT_FALSE(std::lexicographical_compare(tried.begin(), tried.end(), found.begin(), found.end())) << told(request);
}

// Returns whether there is a split.
bool expect_as_brute_force(const SplitRequest& request) {
  const auto outcome = find_split(request);
  if (!outcome) {
    ADD_FAILURE() << outcome.error().what << told(request);
    return false;
  }
  std::optional<Rank> best;
  each_assignment(request, [&](const Assignment& device_of) {
    if (!within_limits(request, device_of)) return;
    const Rank rank = rank_of(request, device_of);
    if (!best || rank < *best) best = rank;
    if (const auto* split = std::get_if<Split>(&*outcome); split != nullptr && request.goal == SplitGoal::sequential)
      expect_sequential(request, split->device_of, device_of);
  });
  const auto* split = std::get_if<Split>(&*outcome);
  EXPECT_EQ(split != nullptr, best.has_value()) << told(request);
  if (!best) {
    EXPECT_EQ(std::get<Shortfall>(*outcome).bytes, least_missing(request)) << told(request);
    return false;
  }
  if (split == nullptr) return false;
  EXPECT_TRUE(std::is_sorted(split->device_of.begin(), split->device_of.end())) << told(request);
  EXPECT_EQ(split->device_of.size(), request.units.size());
  EXPECT_TRUE(within_limits(request, split->device_of)) << told(request);
  EXPECT_EQ(split->used, used_bytes(request, split->device_of)) << told(request);
  EXPECT_EQ(split->duplicated, duplicated_bytes(request, split->device_of)) << told(request);
  if (request.goal != SplitGoal::sequential) {
    const Rank ours = rank_of(request, split->device_of);
    EXPECT_FALSE(*best < ours || ours < *best)
        << told(request)
        << fmt::format(" is {}/{}, could be {}/{}; duplicated {}, could be {}", ours.load.used, ours.load.capacity,
                       best->load.used, best->load.capacity, ours.duplicated, best->duplicated);
  }
  return true;
}

constexpr std::array goals{SplitGoal::balanced, SplitGoal::low_first, SplitGoal::sequential};

class Chance {
 public:
  explicit Chance(unsigned seed) : random_(seed) {}
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
  }
  std::size_t index(std::size_t end) { return static_cast<std::size_t>(below(static_cast<std::int64_t>(end))); }

 private:
  std::mt19937_64 random_;
};

// Pairs that no unit has too few bytes for: each unit shares at most what it has.
void add_shared(SplitRequest& request, Chance& chance, std::size_t count) {
  std::vector<std::int64_t> left;
  for (const Unit& unit : request.units) left.push_back(unit.bytes);
  for (std::size_t i = 0; i < count && request.units.size() > 1; ++i) {
    const std::size_t first = chance.index(request.units.size() - 1);
    const std::size_t second = first + 1 + chance.index(request.units.size() - first - 1);
    const std::int64_t bytes = chance.below(left[first] + 1);
    request.shared.push_back({first, second, bytes});
    left[first] -= bytes;
    left[second] += bytes;
  }
}

SplitRequest random_request(Chance& chance, std::size_t most_units, std::size_t most_devices, std::int64_t scale) {
  SplitRequest request;
  request.goal = goals[chance.index(3)];
  const std::size_t units = 1 + chance.index(most_units);
  const bool workspaces = chance.below(2) == 0;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < units; ++i) {
    request.units.push_back({fmt::format("u{}", i), chance.below(scale), workspaces ? chance.below(scale / 2 + 1) : 0});
    total += request.units.back().bytes;
  }
  add_shared(request, chance, chance.index(4));
  const std::size_t devices = 1 + chance.index(most_devices);
  const std::size_t hosts = chance.below(3) == 0 ? std::min<std::size_t>(devices, 1 + chance.index(2)) : 0;
  const std::int64_t share = 2 * (total + scale) / static_cast<std::int64_t>(devices) + 1;
  const bool equal = chance.below(2) == 0;
  const std::int64_t capacity = 1 + chance.below(2 * share);
  for (std::size_t i = 0; i < devices; ++i) {
    const Place place = i < devices - hosts ? on_gpu(static_cast<int>(i)) : i + 1 < devices ? on_cpu() : on_disk();
    request.devices.push_back(
        {place, equal ? capacity : chance.below(2 * share), chance.below(3) == 0 ? chance.below(scale) : 0});
  }
  return request;
}

TEST(LayerSplit, IsTheBestOfAllSplitsOfEverySmallCase) {
  // Every chain of up to three units of 0 to 3 bytes over every pair of devices of 0 to 4 bytes, with and without a
  // pair.
  std::size_t with_split = 0;
  std::size_t cases = 0;
  for (std::int64_t code = 0; code < 64 * 25 * 3; ++code) {
    std::int64_t rest = code;
    const auto digit = [&rest](std::int64_t base) { return std::exchange(rest, rest / base) % base; };
    SplitRequest request;
    for (int i = 0; i < 3; ++i) request.units.push_back({"u", digit(4), 0});
    for (int i = 0; i < 2; ++i) request.devices.push_back({on_gpu(i), digit(5), 0});
    request.goal = goals[static_cast<std::size_t>(digit(3))];
    for (const bool paired : {false, true}) {
      if (paired) request.shared = {{0, 2, request.units[0].bytes}};
      with_split += expect_as_brute_force(request) ? 1U : 0U;
      ++cases;
    }
  }
  EXPECT_EQ(cases, 9600U);
  EXPECT_GT(with_split, 2000U);
  EXPECT_LT(with_split, cases - 2000U);
}

TEST(LayerSplit, IsTheBestOfAllSplitsOfRandomCases) {
  Chance chance(1);
  std::size_t with_split = 0;
  for (int i = 0; i < 30'000; ++i)
    with_split += expect_as_brute_force(random_request(chance, 7, 4, i % 2 ? 6 : 40)) ? 1U : 0U;
  EXPECT_GT(with_split, 8'000U);
  EXPECT_LT(with_split, 25'000U);
}

TEST(LayerSplit, EveryUnitLiesSomewhereAndLimitsHoldInLargeCases) {
  Chance chance(2);
  std::size_t with_split = 0;
  for (int i = 0; i < 1000; ++i) {
    const SplitRequest request = random_request(chance, 400, 16, 1'000'000'000);
    const auto outcome = find_split(request);
    ASSERT_TRUE(outcome) << outcome.error().what;
    const auto* split = std::get_if<Split>(&*outcome);
    if (split == nullptr) continue;
    ++with_split;
    ASSERT_EQ(split->device_of.size(), request.units.size());
    EXPECT_TRUE(std::is_sorted(split->device_of.begin(), split->device_of.end()));
    EXPECT_TRUE(within_limits(request, split->device_of));
    EXPECT_EQ(split->used, used_bytes(request, split->device_of));
  }
  EXPECT_GT(with_split, 100U);
}

TEST(LayerSplit, MoreCapacityNeverMakesTheOptimumWorse) {
  Chance chance(3);
  std::size_t compared = 0;
  for (int i = 0; i < 500; ++i) {
    SplitRequest request = random_request(chance, 60, 6, 1000);
    request.goal = SplitGoal::balanced;
    std::erase_if(request.devices, [](const SplitDevice& device) { return device.place.kind != Place::Kind::gpu; });
    if (request.devices.empty()) continue;
    const auto before = split_layers(request);
    if (!before) continue;
    ++compared;
    request.devices[chance.index(request.devices.size())].capacity += chance.below(1000);
    const auto after = split_layers(request);
    ASSERT_TRUE(after);
    EXPECT_LE(after->largest_load, before->largest_load) << told(request);
  }
  EXPECT_GT(compared, 100U);
}

TEST(LayerSplit, TheShortfallGivenToItsDeviceIsEnoughAndOneByteLessIsNot) {
  Chance chance(4);
  std::size_t compared = 0;
  for (int i = 0; i < 500; ++i) {
    SplitRequest request = random_request(chance, 60, 6, 1000);
    const auto outcome = find_split(request);
    ASSERT_TRUE(outcome);
    const auto* missing = std::get_if<Shortfall>(&*outcome);
    if (missing == nullptr) continue;
    ++compared;
    request.devices[missing->device].capacity += missing->bytes;
    EXPECT_TRUE(split_layers(request)) << told(request);
    request.devices[missing->device].capacity -= 1;
    EXPECT_FALSE(split_layers(request)) << told(request);
  }
  EXPECT_GT(compared, 100U);
}

SplitRequest equal_units(std::size_t units, std::int64_t bytes, std::size_t gpus, std::int64_t capacity) {
  SplitRequest request;
  for (std::size_t i = 0; i < units; ++i) request.units.push_back({fmt::format("layers.{}", i), bytes, 0});
  for (std::size_t i = 0; i < gpus; ++i) request.devices.push_back({on_gpu(static_cast<int>(i)), capacity, 0});
  return request;
}

TEST(LayerSplit, SpreadsEquallyWhatTheOptimumLeavesOpen) {
  // Nine units over four devices: three on one of them decide the largest load; the others get two each.
  const auto split = split_layers(equal_units(9, 10, 4, 100));
  ASSERT_TRUE(split);
  std::vector<std::int64_t> used = split->used;
  std::sort(used.begin(), used.end());
  EXPECT_EQ(used, (std::vector<std::int64_t>{20, 20, 20, 30}));
}

TEST(LayerSplit, LoadsGpusInProportionToTheirCapacity) {
  SplitRequest request = equal_units(26, 1, 4, 0);
  for (std::size_t i = 0; i < 4; ++i) request.devices[i].capacity = i < 2 ? 30 : 100;
  const auto split = split_layers(request);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->used, (std::vector<std::int64_t>{3, 3, 10, 10}));
}

TEST(LayerSplit, PaysForATiedHeadOnAnotherDevice) {
  SplitRequest request = equal_units(4, 10, 2, 100);
  request.units.insert(request.units.begin(), {"embed_tokens", 8, 0});
  request.units.push_back({"lm_head", 0, 0});
  request.shared = {{0, 5, 8}};
  const auto split = split_layers(request);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->duplicated, 8);
  EXPECT_EQ(split->used, (std::vector<std::int64_t>{28, 28}));
}

TEST(LayerSplit, KeepsTiedUnitsTogetherWhereThatCostsNothing) {
  // Either cut gives the largest load 20; only one leaves the pair together.
  SplitRequest request = equal_units(3, 10, 2, 100);
  request.shared = {{0, 1, 5}};
  auto split = split_layers(request);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->duplicated, 0);
  EXPECT_EQ(split->device_of, (Assignment{0, 0, 1}));
  request.shared = {{1, 2, 5}};
  split = split_layers(request);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->duplicated, 0);
  EXPECT_EQ(split->device_of, (Assignment{0, 1, 1}));
}

TEST(LayerSplit, CountsTheLargestWorkspaceOfADeviceOnce) {
  SplitRequest request = equal_units(4, 10, 2, 100);
  for (Unit& unit : request.units) unit.workspace = 5;
  const auto split = split_layers(request);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->used, (std::vector<std::int64_t>{25, 25}));
}

TEST(LayerSplit, PutsOnTheCpuOnlyWhatTheGpusCannotHold) {
  SplitRequest request = equal_units(10, 10, 2, 40);
  request.devices.push_back({on_cpu(), 15, 0});
  request.devices.push_back({on_disk(), 1000, 0});
  const auto split = split_layers(request);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->used, (std::vector<std::int64_t>{40, 40, 10, 10}));
}

TEST(LayerSplit, LeavesTheFirstGpuToOthersWhereTheyCanHoldAll) {
  SplitRequest request = equal_units(8, 10, 3, 50);
  request.goal = SplitGoal::low_first;
  auto split = split_layers(request);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->used, (std::vector<std::int64_t>{0, 40, 40}));
  request.units.resize(6);
  request.devices[1].capacity = request.devices[2].capacity = 20;
  split = split_layers(request);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->used, (std::vector<std::int64_t>{20, 20, 20}));
}

TEST(LayerSplit, TellsHowManyBytesAreMissing) {
  SplitRequest request = equal_units(5, 10, 2, 20);
  const auto split = split_layers(request);
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().kind, Error::Kind::refused);
  EXPECT_NE(split.error().what.find("10 bytes (10 B) are missing"), std::string::npos) << split.error().what;
  EXPECT_FALSE(split.error().remedy.empty());
}

TEST(LayerSplit, RefusesRequestsThatMakeNoSenseAndNamesEverything) {
  SplitRequest request = equal_units(3, 10, 0, 0);
  request.units[1].bytes = -1;
  request.devices = {{on_cpu(), 10, 0}, {on_gpu(0), -5, 0}};
  request.shared = {{2, 1, 3}};
  const auto split = split_layers(request);
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().kind, Error::Kind::bad_input);
  for (const char* part : {"layers.1: -1 bytes", "units 2 and 1 of 3", "a GPU after cpu", "capacity -5"})
    EXPECT_NE(split.error().what.find(part), std::string::npos) << part << " in " << split.error().what;
  request = equal_units(3, 10, 2, 100);
  request.shared = {{0, 1, 10}, {0, 2, 10}};
  ASSERT_FALSE(split_layers(request));
  EXPECT_NE(split_layers(request).error().what.find("layers.0: shares 10 bytes more than it has"), std::string::npos);
}

}  // namespace
}  // namespace muster::plan

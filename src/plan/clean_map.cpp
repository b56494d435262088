#include "plan/clean_map.hpp"

#include <optional>

namespace muster::plan {
namespace {

using spec::ModelShape;

// The module right above an entry; none above the root.
std::optional<std::size_t> above(const ModelShape& shape, Entry entry) {
  if (!is_module(shape, entry)) return number(shape.at(tensor_of(shape, entry)).owner);
  const std::optional<spec::ModuleId> parent = shape.at(module_of(entry)).parent;
  if (!parent) return std::nullopt;
  return number(*parent);
}

struct Below {
  std::size_t count = 0;
  std::optional<Place> place;  // of all of them
  bool mixed = false;

  void add(std::size_t entries, std::optional<Place> of, bool of_mixed) {
    if (entries == 0) return;
    mixed = mixed || of_mixed || (count > 0 && place != of);
    count += entries;
    place = of;
  }
};

// Per module: the highest module from itself upwards that stands for everything below it.
std::vector<std::optional<std::size_t>> standing_for(const ModelShape& shape, const std::vector<PlacedEntry>& placed) {
  std::vector<Below> below(shape.modules.size());
  for (const PlacedEntry& entry : placed)
    if (const auto module = above(shape, entry.entry)) below[*module].add(1, entry.place, false);
  for (std::size_t i = shape.modules.size(); i-- > 1;)
    below[number(*shape.modules[i].parent)].add(below[i].count, below[i].place, below[i].mixed);

  std::vector<std::optional<std::size_t>> standing(shape.modules.size());
  for (std::size_t i = 0; i < shape.modules.size(); ++i) {
    if (i > 0) standing[i] = standing[number(*shape.modules[i].parent)];
    if (!standing[i] && below[i].count > 1 && !below[i].mixed) standing[i] = i;
  }
  return standing;
}

}  // namespace

DeviceMap plain_map(const ModelShape& shape, const std::vector<PlacedEntry>& placed) {
  DeviceMap map;
  for (const PlacedEntry& entry : placed) map.entries.emplace_back(path(shape, entry.entry), entry.place);
  return map;
}

DeviceMap clean_map(const ModelShape& shape, const std::vector<PlacedEntry>& placed) {
  const auto standing = standing_for(shape, placed);
  std::vector<bool> written(shape.modules.size());
  std::vector<PlacedEntry> kept;
  for (const PlacedEntry& entry : placed) {
    const auto module = above(shape, entry.entry);
    const auto stands = module ? standing[*module] : std::nullopt;
    if (!stands) {
      kept.push_back(entry);
    } else if (!written[*stands]) {
      written[*stands] = true;
      kept.push_back({static_cast<Entry>(*stands), entry.place});
    }
  }
  return plain_map(shape, kept);
}

}  // namespace muster::plan

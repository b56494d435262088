#include "plan/split_units.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "plan/clean_map.hpp"

namespace muster::plan {
namespace {

using spec::ModelShape;
using spec::ModuleId;
using spec::TensorId;

bool is_parameter(const ModelShape& shape, std::size_t tensor) {
  return shape.tensors[tensor].kind == spec::TensorKind::parameter;
}

// Walks the modules outside of blocks and collects what stays together.
class Collector {
 public:
  explicit Collector(const ModelShape& shape) : shape_(shape) {}

  SplitUnits collect() {
    for (std::size_t i = 0; i < shape_.modules.size();) {
      const auto id = static_cast<ModuleId>(i);
      const bool is_block = i > 0 && shape_.is_whole(id);
      const bool is_leaf = shape_.modules[i].end == i + 1;
      if (is_block)
        add_unit({entry_of(id)}, true);
      else if (is_leaf)
        add_leaf(id);
      else
        add_own_tensors(id);
      i = is_block ? shape_.modules[i].end : i + 1;
    }
    add_buffers();
    return std::move(units_);
  }

 private:
  void add_unit(std::vector<Entry> contents, bool is_block) {
    if (is_block && !first_block_) first_block_ = units_.units.size();
    units_.roles.push_back(is_block       ? UnitRole::block
                           : first_block_ ? UnitRole::after_blocks
                                          : UnitRole::before_blocks);
    units_.units.push_back({.path = path(shape_, contents.front())});
    units_.contents.push_back(std::move(contents));
  }

  void add_leaf(ModuleId id) {
    const spec::ModuleShape& module = shape_.at(id);
    if (module.tensor_count == 0) return;
    bool has_parameter = false;
    for (std::size_t i = 0; i < module.tensor_count; ++i)
      has_parameter = has_parameter || is_parameter(shape_, module.first_tensor + i);
    if (has_parameter)
      add_unit({entry_of(id)}, false);
    else
      buffers_.push_back(entry_of(id));
  }

  // For a module that has children.
  void add_own_tensors(ModuleId id) {
    const spec::ModuleShape& module = shape_.at(id);
    std::vector<Entry> parameters;
    for (std::size_t i = 0; i < module.tensor_count; ++i) {
      const Entry tensor = entry_of(shape_, static_cast<TensorId>(module.first_tensor + i));
      (is_parameter(shape_, module.first_tensor + i) ? parameters : buffers_).push_back(tensor);
    }
    if (!parameters.empty()) add_unit(std::move(parameters), false);
  }

  void add_buffers() {
    if (buffers_.empty()) return;
    if (units_.units.empty()) return add_unit(std::move(buffers_), false);
    std::vector<Entry>& contents = units_.contents[first_block_.value_or(0)];
    contents.insert(contents.end(), buffers_.begin(), buffers_.end());
  }

  const ModelShape& shape_;
  SplitUnits units_;
  std::optional<std::size_t> first_block_;
  std::vector<Entry> buffers_;
};

// Per tensor: its unit.
std::vector<std::size_t> units_of_tensors(const ModelShape& shape, const SplitUnits& units) {
  std::vector<std::size_t> of_module(shape.modules.size());
  std::map<TensorId, std::size_t> of_single;
  for (std::size_t unit = 0; unit < units.contents.size(); ++unit) {
    for (const Entry entry : units.contents[unit]) {
      if (is_module(shape, entry))
        std::fill(of_module.begin() + static_cast<std::ptrdiff_t>(number(entry)),
                  of_module.begin() + static_cast<std::ptrdiff_t>(shape.at(module_of(entry)).end), unit);
      else
        of_single[tensor_of(shape, entry)] = unit;
    }
  }
  std::vector<std::size_t> of_tensor;
  for (const spec::TensorShape& tensor : shape.tensors) of_tensor.push_back(of_module[number(tensor.owner)]);
  for (const auto& [tensor, unit] : of_single) of_tensor[number(tensor)] = unit;
  return of_tensor;
}

}  // namespace

SplitUnits split_units(const ModelShape& shape, std::span<const std::int64_t> tensor_bytes) {
  SplitUnits units = Collector(shape).collect();
  const auto unit_of = units_of_tensors(shape, units);
  std::map<std::size_t, std::vector<std::size_t>> tied;  // original → units of all its names
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    std::size_t original = i;
    while (shape.tensors[original].same_as) original = number(*shape.tensors[original].same_as);
    if (original != i) {
      tied[original].push_back(unit_of[i]);
      continue;
    }
    units.units[unit_of[i]].bytes += tensor_bytes[i];
  }
  for (auto& [original, names] : tied) {
    names.push_back(unit_of[original]);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    units.units[unit_of[original]].bytes -= tensor_bytes[original];
    units.units[names.front()].bytes += tensor_bytes[original];
    for (std::size_t i = 1; i < names.size(); ++i)
      units.shared.push_back({names[i - 1], names[i], tensor_bytes[original]});
  }
  return units;
}

DeviceMap to_device_map(const ModelShape& shape, const SplitUnits& units, const Split& split,
                        std::span<const SplitDevice> devices) {
  std::vector<PlacedEntry> placed;
  for (std::size_t unit = 0; unit < units.contents.size(); ++unit)
    for (const Entry entry : units.contents[unit]) placed.push_back({entry, devices[split.device_of[unit]].place});
  return clean_map(shape, placed);
}

std::vector<LayerRange> layer_ranges(const SplitUnits& units, const Split& split,
                                     std::span<const SplitDevice> devices) {
  std::vector<LayerRange> ranges;
  for (const SplitDevice& device : devices) ranges.push_back({.place = device.place});
  std::size_t block = 0;
  for (std::size_t unit = 0; unit < units.roles.size(); ++unit) {
    LayerRange& range = ranges[split.device_of[unit]];
    if (units.roles[unit] == UnitRole::before_blocks) range.has_embedding = true;
    if (units.roles[unit] == UnitRole::after_blocks && unit + 1 == units.roles.size()) range.has_head = true;
    if (units.roles[unit] != UnitRole::block) continue;
    if (range.first_block == range.end_block) range.first_block = block;
    range.end_block = ++block;
  }
  return ranges;
}

}  // namespace muster::plan

#include "plan/compat_worklist.hpp"

namespace muster::plan {

using spec::ModelShape;
using spec::ModuleId;

namespace {

void add_tensors(const ModelShape& shape, ModuleId module, bool parameters, std::vector<Entry>& entries) {
  for (const spec::TensorId id : own_tensors(shape, module, parameters)) entries.push_back(entry_of(shape, id));
}

}  // namespace

std::vector<Entry> parts_of(const ModelShape& shape, ModuleId module) {
  std::vector<Entry> parts;
  add_tensors(shape, module, true, parts);
  for (std::size_t child = number(module) + 1; child < shape.at(module).end; child = shape.modules[child].end)
    parts.push_back(static_cast<Entry>(child));
  return parts;
}

CompatWorklist::CompatWorklist(const ModelShape& shape)
    : shape_(shape),
      end_(shape.modules.size() + shape.tensors.size()),
      next_(end_ + 1),
      previous_(end_ + 1),
      held_(end_ + 1) {
  next_[end_] = previous_[end_] = end_;
  std::vector<Entry> entries = parts_of(shape, ModuleId{});
  add_tensors(shape, ModuleId{}, false, entries);
  for (const Entry entry : entries) link(end_, number(entry));
}

std::optional<Entry> CompatWorklist::after(std::size_t entry) const {
  if (next_[entry] == end_) return std::nullopt;
  return static_cast<Entry>(next_[entry]);
}

void CompatWorklist::link(std::size_t before, std::size_t entry) {
  previous_[entry] = previous_[before];
  next_[entry] = before;
  next_[previous_[before]] = entry;
  previous_[before] = entry;
  held_[entry] = true;
}

Entry CompatWorklist::take_first() {
  const auto entry = static_cast<Entry>(next_[end_]);
  remove(entry);
  return entry;
}

void CompatWorklist::remove(Entry entry) {
  const std::size_t i = number(entry);
  next_[previous_[i]] = next_[i];
  previous_[next_[i]] = previous_[i];
  held_[i] = false;
}

void CompatWorklist::replace(Entry module, const std::vector<Entry>& parts) {
  const std::size_t before = next_[number(module)];
  remove(module);
  for (const Entry part : parts) link(before, number(part));
}

std::optional<Entry> CompatWorklist::holder_of(spec::TensorId tensor) const {
  for (std::optional<ModuleId> module = shape_.at(tensor).owner; module; module = shape_.at(*module).parent)
    if (held_[number(*module)]) return entry_of(*module);
  return std::nullopt;
}

}  // namespace muster::plan

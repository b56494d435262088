// A module or a tensor of one model under one number: what a line of a device map names.
#pragma once

#include <cstddef>
#include <string>

#include "spec/model/model_shape.hpp"

namespace muster::plan {

// Modules first, then tensors.
enum class Entry : std::size_t {};
constexpr std::size_t number(Entry entry) { return static_cast<std::size_t>(entry); }

constexpr Entry entry_of(spec::ModuleId id) { return static_cast<Entry>(spec::number(id)); }
inline Entry entry_of(const spec::ModelShape& shape, spec::TensorId id) {
  return static_cast<Entry>(shape.modules.size() + spec::number(id));
}
inline bool is_module(const spec::ModelShape& shape, Entry entry) { return number(entry) < shape.modules.size(); }
inline spec::ModuleId module_of(Entry entry) { return static_cast<spec::ModuleId>(number(entry)); }
inline spec::TensorId tensor_of(const spec::ModelShape& shape, Entry entry) {
  return static_cast<spec::TensorId>(number(entry) - shape.modules.size());
}
inline std::string path(const spec::ModelShape& shape, Entry entry) {
  return is_module(shape, entry) ? shape.path(module_of(entry)) : shape.path(tensor_of(shape, entry));
}

}  // namespace muster::plan

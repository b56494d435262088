#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "plan/device_map.hpp"
#include "plan/model_entry.hpp"

namespace muster::plan {
namespace {

using spec::ModelShape;
using spec::ModuleId;
using spec::TensorId;

std::optional<Place> parse_place(std::string_view text) {
  if (text == "cpu") return on_cpu();
  if (text == "disk") return on_disk();
  if (text.starts_with("cuda:")) text.remove_prefix(5);
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  const auto gpu = parse_number<int>(text);
  return gpu ? std::optional(on_gpu(*gpu)) : std::nullopt;
}

std::string join_path(const std::string& above, const std::string& name) {
  return above.empty() ? name : above + '.' + name;
}

// The entry with that path, or the nearest path that exists.
struct Lookup {
  std::optional<Entry> entry;
  std::optional<std::string> meant;
};

Lookup look_up(const ModelShape& shape, const std::string& key) {
  if (const auto module = shape.find_module(key); module && shape.path(*module) == key)
    return {entry_of(*module), std::nullopt};
  // As far down as the path goes; the rest is compared with what exists there.
  std::size_t length = key.rfind('.');
  while (length != std::string::npos && !shape.find_module(key.substr(0, length)))
    length = length == 0 ? std::string::npos : key.rfind('.', length - 1);
  const ModuleId module = *shape.find_module(length == std::string::npos ? "" : key.substr(0, length));
  const std::string above = shape.path(module);
  std::vector<std::string> known;
  for (std::size_t i = 0; i < shape.at(module).tensor_count; ++i) {
    const auto id = static_cast<TensorId>(shape.at(module).first_tensor + i);
    known.push_back(join_path(above, shape.at(id).name));
    if (known.back() == key) return {entry_of(shape, id), std::nullopt};
  }
  for (const ModuleId child : shape.children(module)) known.push_back(join_path(above, shape.at(child).name));
  const std::size_t end = key.find('.', above.empty() ? 0 : above.size() + 1);
  return {std::nullopt, nearest(key.substr(0, end), known)};
}

class Check {
 public:
  Check(const ModelShape& shape, const std::vector<Budget>& budgets)
      : shape_(shape), budgets_(budgets), key_of_(shape.modules.size() + shape.tensors.size()) {}

  void add(const std::string& key, const std::string& place) {
    const std::string where = key.empty() ? "the whole model (\"\")" : key;
    const auto parsed = parse_place(place);
    if (!parsed)
      problems_.push_back(
          {where, fmt::format("\"{}\" is not a place", place), "write a GPU's number, cuda:N, cpu or disk"});
    else if (std::none_of(budgets_.begin(), budgets_.end(), [&](const Budget& b) { return b.place == *parsed; }))
      problems_.push_back({where, fmt::format("there is no place {}", to_string(*parsed)), "there are " + places()});
    const Lookup found = look_up(shape_, key);
    if (!found.entry) {
      problems_.push_back({where, "the model has no such module or tensor",
                           found.meant ? fmt::format("did you mean {}?", *found.meant) : "see its modules' names"});
      return;
    }
    if (key_of_[number(*found.entry)]) problems_.push_back({where, "is written twice", "write it once"});
    key_of_[number(*found.entry)] = true;
    if (parsed) map_.entries.emplace_back(key, *parsed);
  }

  Result<DeviceMap> finish() {
    for (std::size_t i = 0; i < key_of_.size(); ++i)
      if (key_of_[i]) check_above(static_cast<Entry>(i));
    find_covered();
    name_left_out(ModuleId{});
    if (!problems_.empty()) return to_error(problems_);
    return std::move(map_);
  }

 private:
  std::string places() const {
    std::vector<std::string> names;
    for (const Budget& budget : budgets_) names.push_back(to_string(budget.place));
    return join(names, ", ");
  }

  std::optional<ModuleId> above(Entry entry) const {
    if (is_module(shape_, entry)) return shape_.at(module_of(entry)).parent;
    return shape_.at(tensor_of(shape_, entry)).owner;
  }

  void check_above(Entry entry) {
    for (auto module = above(entry); module; module = shape_.at(*module).parent) {
      if (!key_of_[number(*module)]) continue;
      const std::string holder = shape_.path(*module);
      problems_.push_back({path(shape_, entry),
                           fmt::format("lies in {}, which has a place already", holder.empty() ? "\"\"" : holder),
                           "write either the module or its parts"});
      return;
    }
  }

  // A module counts as covered when a key names it or one above it, as touched when a tensor in or below it is covered.
  void find_covered() {
    covered_.assign(shape_.modules.size(), false);
    for (std::size_t i = 0; i < shape_.modules.size(); ++i)
      covered_[i] = key_of_[i] || (i > 0 && covered_[number(*shape_.modules[i].parent)]);
    touched_ = covered_;
    holds_tensor_.assign(shape_.modules.size(), false);
    for (std::size_t i = 0; i < shape_.tensors.size(); ++i) {
      const std::size_t owner = number(shape_.tensors[i].owner);
      holds_tensor_[owner] = true;
      if (key_of_[shape_.modules.size() + i]) touched_[owner] = true;
    }
    for (std::size_t i = shape_.modules.size(); i-- > 1;) {
      const std::size_t parent = number(*shape_.modules[i].parent);
      if (touched_[i] && holds_tensor_[i]) touched_[parent] = true;
      if (holds_tensor_[i]) holds_tensor_[parent] = true;
    }
  }

  // The highest modules that have no place at all, and single tensors between modules that have one.
  void name_left_out(ModuleId module) {
    const std::size_t i = number(module);
    if (covered_[i] || !holds_tensor_[i]) return;
    if (!touched_[i]) return left_out(i == 0 ? "the whole model (\"\")" : shape_.path(module));
    for (std::size_t t = 0; t < shape_.at(module).tensor_count; ++t) {
      const auto tensor = static_cast<TensorId>(shape_.at(module).first_tensor + t);
      if (!key_of_[number(entry_of(shape_, tensor))]) left_out(shape_.path(tensor));
    }
    for (const ModuleId child : shape_.children(module)) name_left_out(child);
  }

  void left_out(std::string where) { problems_.push_back({std::move(where), "has no place", "add it to the map"}); }

  const ModelShape& shape_;
  const std::vector<Budget>& budgets_;
  std::vector<bool> key_of_;  // per entry: a key names it
  std::vector<bool> covered_;
  std::vector<bool> touched_;
  std::vector<bool> holds_tensor_;
  DeviceMap map_;
  std::vector<Problem> problems_;
};

}  // namespace

Result<DeviceMap> custom_map(const ModelShape& shape, const std::vector<std::pair<std::string, std::string>>& written,
                             const std::vector<Budget>& budgets) {
  Check check(shape, budgets);
  for (const auto& [key, place] : written) check.add(key, place);
  return check.finish();
}

}  // namespace muster::plan

// Makes device maps as it is told, one JSON object a line: map_maker. A model first, then requests for it:
//   {"model": "m", "modules": [{"name": "", "class": "Net", "parent": null, "tensors":
//       [{"name": "weight", "dimensions": [4, 2], "type": "float32", "kind": "parameter", "same_as": null}]}, …]}
//   {"of": "m", "rules": "accelerate", "mode": "balanced", "budgets": {"0": 1000, "cpu": 5000}, …}
//   {"of": "m", "mode": "optimal", …} for our own planner
// Each request is answered with {"budgets": …, "map": …} or {"error": …}; a model with {"model": …}. With "compare":
// true a map by others' rules comes with its own largest load and our planner's, by the same accounting, where they
// compare.
#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "plan/compat_map.hpp"
#include "plan/split_units.hpp"

namespace muster::plan {
namespace {

using nlohmann::json;

spec::ElementType type_of(const std::string& word) {
  static const std::map<std::string, spec::ElementType> types{
      {"float64", spec::ElementType::float64}, {"float32", spec::ElementType::float32},
      {"float16", spec::ElementType::float16}, {"bfloat16", spec::ElementType::bfloat16},
      {"float8", spec::ElementType::float8},   {"int64", spec::ElementType::int64},
      {"int32", spec::ElementType::int32},     {"int16", spec::ElementType::int16},
      {"int8", spec::ElementType::int8},       {"uint8", spec::ElementType::uint8},
      {"boolean", spec::ElementType::boolean},
  };
  return types.at(word);
}

spec::TensorKind kind_of(const std::string& word) {
  if (word == "parameter") return spec::TensorKind::parameter;
  return word == "buffer" ? spec::TensorKind::buffer : spec::TensorKind::derived;
}

spec::TensorShape read_tensor(const json& written, spec::ModuleId owner) {
  spec::TensorShape tensor{.name = written.at("name").get<std::string>()};
  for (const json& size : written.at("dimensions"))
    tensor.dimensions.sizes.at(tensor.dimensions.rank++) = size.get<std::int64_t>();
  tensor.type = type_of(written.at("type").get<std::string>());
  tensor.kind = kind_of(written.at("kind").get<std::string>());
  tensor.owner = owner;
  if (!written.at("same_as").is_null())
    tensor.same_as = static_cast<spec::TensorId>(written.at("same_as").get<std::size_t>());
  return tensor;
}

spec::ModelShape read_model(const json& modules) {
  spec::ModelShape shape;
  for (const json& written : modules) {
    const auto id = static_cast<spec::ModuleId>(shape.modules.size());
    spec::ModuleShape module{.name = written.at("name").get<std::string>(),
                             .class_name = written.at("class").get<std::string>()};
    if (!written.at("parent").is_null())
      module.parent = static_cast<spec::ModuleId>(written.at("parent").get<std::size_t>());
    module.first_tensor = shape.tensors.size();
    for (const json& tensor : written.at("tensors")) shape.tensors.push_back(read_tensor(tensor, id));
    module.tensor_count = shape.tensors.size() - module.first_tensor;
    shape.modules.push_back(std::move(module));
  }
  for (std::size_t i = shape.modules.size(); i-- > 0;) {
    spec::ModuleShape& module = shape.modules[i];
    module.end = std::max(module.end, i + 1);
    if (!module.parent) continue;
    spec::ModuleShape& parent = shape.modules[number(*module.parent)];
    parent.end = std::max(parent.end, module.end);
  }
  return shape;
}

Place place_of(const std::string& word) {
  if (word == "cpu") return on_cpu();
  if (word == "disk") return on_disk();
  return on_gpu(std::stoi(word));
}

CompatRequest read_request(const json& written) {
  CompatRequest request;
  request.rules =
      written.value("rules", "accelerate") == "accelerate" ? CompatRules::accelerate : CompatRules::transformers;
  if (written.contains("element_bytes") && !written["element_bytes"].is_null())
    request.element_bytes = written["element_bytes"].get<double>();
  request.special_elements = written.value("special_elements", std::map<std::string, double>());
  request.whole_classes = written.value("whole_classes", std::vector<std::string>());
  request.clean = written.value("clean", true);
  request.fallback_allocation = written.value("fallback_allocation", false);
  request.limits_given = written.value("limits_given", true);
  return request;
}

// A failure ends the request.
template <class Value>
Value check(Result<Value> result) {
  if (!result) throw std::runtime_error(to_string(result.error()));
  return std::move(*result);
}

std::vector<Budget> read_budgets(const json& written) {
  std::vector<Budget> budgets;
  for (const auto& [place, bytes] : written.at("budgets").items())
    budgets.push_back({place_of(place), {bytes.get<std::int64_t>()}});
  std::sort(budgets.begin(), budgets.end(), [](const Budget& a, const Budget& b) { return a.place < b.place; });
  return budgets;
}

json to_json(const DeviceMap& map) {
  json entries = json::array();
  for (const auto& [path, place] : map.entries) entries.push_back({path, to_string(place)});
  return entries;
}

// A model as units over the given budgets.
struct OptimalRequest {
  SplitUnits units;
  SplitRequest split;
};

OptimalRequest optimal_request(spec::ModelShape shape, const json& written, const std::vector<Budget>& budgets) {
  const CompatRequest request = read_request(written);
  std::vector<std::int64_t> bytes;
  for (const spec::TensorShape& tensor : shape.tensors) {
    const auto own = spec::bytes_per_element(tensor.type);
    const bool loaded_smaller = request.element_bytes && is_floating(tensor.type);
    bytes.push_back(tensor.elements() *
                    (loaded_smaller ? std::min(own, static_cast<std::int64_t>(*request.element_bytes)) : own));
  }
  shape.whole_classes = request.whole_classes;
  OptimalRequest optimal{.units = split_units(shape, bytes), .split = {}};
  optimal.split.units = optimal.units.units;
  optimal.split.shared = optimal.units.shared;
  for (const Budget& budget : budgets) optimal.split.devices.push_back({budget.place, budget.bytes.value, 0});
  return optimal;
}

json optimal(const spec::ModelShape& shape, const json& written) {
  OptimalRequest request = optimal_request(shape, written, read_budgets(written));
  const std::string goal = written.value("goal", "balanced");
  request.split.goal = goal == "balanced"    ? SplitGoal::balanced
                       : goal == "low_first" ? SplitGoal::low_first
                                             : SplitGoal::sequential;
  const Split split = check(split_layers(request.split));
  json answer{{"map", to_json(to_device_map(shape, request.units, split, request.split.devices))},
              {"budgets", json::object()},
              {"used", json::object()},
              {"largest_load", split.largest_load},
              {"duplicated", split.duplicated}};
  for (std::size_t i = 0; i < split.used.size(); ++i)
    answer["used"][to_string(request.split.devices[i].place)] = split.used[i];
  return answer;
}

// Where a map puts our units: nothing unless it covers every tensor, with GPUs alone, in their order.
std::optional<std::vector<std::size_t>> assignment_of(const spec::ModelShape& shape, const DeviceMap& map,
                                                      const OptimalRequest& request) {
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const auto place = map.find(shape.path(static_cast<spec::TensorId>(i)));
    if (!place || place->kind != Place::Kind::gpu) return std::nullopt;
  }
  std::vector<std::size_t> device_of;
  const auto& devices = request.split.devices;
  for (const auto& contents : request.units.contents) {
    const auto place = map.find(path(shape, contents.front()));
    if (!place) return std::nullopt;
    const auto device = std::find_if(devices.begin(), devices.end(), [&](const auto& d) { return d.place == *place; });
    device_of.push_back(static_cast<std::size_t>(device - devices.begin()));
  }
  if (!std::is_sorted(device_of.begin(), device_of.end())) return std::nullopt;
  return device_of;
}

void compare(const spec::ModelShape& shape, const json& written, const DeviceMap& map, json& answer) {
  std::vector<Budget> budgets = read_budgets(written);
  std::erase_if(budgets, [](const Budget& budget) { return budget.place.kind != Place::Kind::gpu; });
  if (budgets.empty()) return;
  const OptimalRequest request = optimal_request(shape, written, budgets);
  const auto device_of = assignment_of(shape, map, request);
  if (!device_of) return;
  answer["their_load"] = assess_split(request.split, *device_of).largest_load;
  answer["our_load"] = nullptr;
  if (const auto split = split_layers(request.split)) answer["our_load"] = split->largest_load;
}

json compat(const spec::ModelShape& shape, const json& written) {
  const CompatRequest request = read_request(written);
  const std::string mode = written.at("mode").get<std::string>();
  const std::vector<Budget> given = read_budgets(written);
  auto budgets = mode == "sequential" ? check(sequential_budgets(request, given))
                                      : check(balanced_budgets(shape, request, given, mode == "balanced_low_0"));
  // Elements of other sizes are packed weights, to transformers.
  if (request.rules == CompatRules::transformers && !request.special_elements.empty())
    budgets = budgets_of_packed(std::move(budgets));
  const DeviceMap map = check(compat_map(shape, request, budgets));
  json answer{{"budgets", json::object()}, {"map", to_json(map)}};
  for (const Budget& budget : budgets)
    answer["budgets"][to_string(budget.place)] = json::array({budget.bytes.value, budget.fraction});
  if (written.value("compare", false)) compare(shape, written, map, answer);
  return answer;
}

class Maker {
 public:
  json answer(const json& order) {
    if (order.contains("model")) {
      models_[order["model"].get<std::string>()] = read_model(order.at("modules"));
      return {{"model", order["model"]}};
    }
    try {
      const spec::ModelShape& shape = models_.at(order.at("of").get<std::string>());
      return order.at("mode") == "optimal" ? optimal(shape, order) : compat(shape, order);
    } catch (const std::runtime_error& failure) {
      return {{"error", failure.what()}};
    }
  }

 private:
  std::map<std::string, spec::ModelShape> models_;
};

}  // namespace
}  // namespace muster::plan

int main() {
  muster::plan::Maker maker;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << maker.answer(nlohmann::json::parse(line)).dump() << std::endl;
}

#include "spec/model/adapters/adapted_modules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "spec/model/quantized/packed_modules.hpp"
#include "spec/model/adapters/path_pattern.hpp"

namespace muster::spec {
namespace {

constexpr std::string_view all_linear = "all-linear";

bool is_all_linear(const std::vector<std::string>& targets) {
  return targets.empty() || (targets.size() == 1 && to_lower(targets[0]) == all_linear);
}

bool ends_with_name(std::string_view path, std::string_view name) {
  return path == name || (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}

bool is_within(std::string_view path, std::string_view name) {
  return fmt::format(".{}.", path).find(fmt::format(".{}.", name)) != std::string::npos;
}

// Names, or one pattern.
class PathChoice {
 public:
  static Result<PathChoice> make(const std::vector<std::string>& entries) {
    PathChoice choice;
    choice.names_ = entries;
    if (entries.size() != 1 || is_module_name(entries[0])) return choice;
    auto pattern = PathPattern::compile(entries[0]);
    if (!pattern) return pattern.error();
    choice.pattern_ = std::move(*pattern);
    return choice;
  }

  bool is_pattern() const { return pattern_.has_value(); }
  bool names_whole(std::string_view path) const { return std::ranges::find(names_, path) != names_.end(); }
  Result<bool> matches(std::string_view path) const {
    if (pattern_) return pattern_->matches(path);
    return std::ranges::any_of(names_, [&](const std::string& name) { return ends_with_name(path, name); });
  }

 private:
  std::vector<std::string> names_;
  std::optional<PathPattern> pattern_;
};

// PEFT's layers_to_transform: the first number in a path that has something before it, or the number after one of the
// patterns.
class LayerChoice {
 public:
  static Result<LayerChoice> make(const AdapterOptions& options) {
    LayerChoice choice;
    choice.layers_ = options.layers;
    std::vector<std::string> before{".*\\.[^.]*"};
    if (!options.layers_patterns.empty()) before.clear();
    for (const std::string& text : options.layers_patterns) before.push_back(fmt::format("(?:.*?\\.)?(?:{})", text));
    for (const std::string& text : before) {
      auto pattern = PathPattern::compile(text);
      if (!pattern) return pattern.error();
      choice.patterns_.push_back(std::move(*pattern));
    }
    return choice;
  }

  Result<bool> matches(std::string_view path) const {
    if (layers_.empty()) return true;
    for (const PathPattern& pattern : patterns_) {
      const auto number = number_after(path, [&](std::string_view before) { return pattern.matches(before); });
      if (!number) return number.error();
      if (*number) return holds(**number);
    }
    return false;
  }

 private:
  bool holds(std::int64_t layer) const { return std::ranges::find(layers_, layer) != layers_.end(); }

  // The first part of the path that is a number, is not its last part and stands after something that counts.
  template <class Counts>
  static Result<std::optional<std::int64_t>> number_after(std::string_view path, Counts&& counts) {
    for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
      const std::string_view rest = path.substr(dot + 1);
      const std::size_t end = rest.find('.');
      const auto number = parse_number<std::int64_t>(rest.substr(0, end));
      if (!number || end == std::string_view::npos) continue;
      const Result<bool> found = counts(path.substr(0, dot));
      if (!found) return found.error();
      if (*found) return std::optional(*number);
    }
    return std::optional<std::int64_t>();
  }

  std::vector<std::int64_t> layers_;
  std::vector<PathPattern> patterns_;
};

template <class Row, class Value>
class ValueByPattern {
 public:
  static Result<ValueByPattern> make(const std::vector<Row>& rows, Value Row::*member) {
    ValueByPattern values;
    for (const Row& row : rows) {
      auto pattern = PathPattern::compile(fmt::format("(.*\\.)?({})", row.pattern));
      if (!pattern) return pattern.error();
      values.rows_.push_back({std::move(*pattern), row.*member});
    }
    return values;
  }

  Result<Value> of(std::string_view path, Value otherwise) const {
    for (const auto& [pattern, value] : rows_) {
      const auto found = pattern.matches(path);
      if (!found) return found.error();
      if (*found) return value;
    }
    return otherwise;
  }

 private:
  struct Entry {
    PathPattern pattern;
    Value value;
  };
  std::vector<Entry> rows_;
};

// The last parts of the linear layers' paths, each once.
std::string linear_names(const ModelShape& shape) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < shape.modules.size(); ++i)
    if (linear_weight(shape, ModuleId{i}) && std::ranges::find(names, shape.modules[i].name) == names.end())
      names.push_back(shape.modules[i].name);
  return join(names, ", ");
}

Error no_match(const ModelShape& shape, const AdapterOptions& options, bool excluded) {
  const std::string targets = options.targets.empty() ? std::string(all_linear) : join(options.targets, ", ");
  if (excluded)
    return bad_input(fmt::format("every module that the targets {} choose is excluded or trained as a whole", targets),
                     "exclude less, or name other targets");
  const bool layers = !options.layers.empty();
  return bad_input(fmt::format("the targets {} match no module of the model{}", targets,
                               layers ? " in the layers that are named" : ""),
                   fmt::format("linear layers: {}; or a pattern for whole paths, such as .*\\.mlp\\..*, or all-linear",
                               linear_names(shape)));
}

Error not_linear(const ModelShape& shape, ModuleId module) {
  const std::string& kind = shape.at(module).class_name;
  return bad_input(fmt::format("the targets match {}, which is a {}: only linear layers get adapters",
                               shape.path(module), kind),
                   kind == "Embedding" ? "leave it out of the targets; as a saved module it is trained as a whole"
                                       : fmt::format("linear layers: {}", linear_names(shape)));
}

bool is_head(const ModelShape& shape, TensorId weight) {
  const TensorRole role = shape.at(weight).role;
  return role == TensorRole::head || role == TensorRole::score;
}

bool is_saved(std::string_view path, const AdapterOptions& options) {
  return std::ranges::any_of(options.saved_modules, [&](const std::string& name) { return is_within(path, name); });
}

// Layers that read the same input are one matrix, which is trained or is not.
Result<void> check_whole_groups(const ModelShape& shape, const std::vector<bool>& saved) {
  for (const std::vector<TensorId>& group : read_together(shape)) {
    std::vector<std::string> trained, frozen;
    for (const TensorId weight : group) (saved[number(weight)] ? trained : frozen).push_back(shape.path(weight));
    if (trained.empty() || frozen.empty()) continue;
    return bad_input(fmt::format("{} would be trained as a whole, but not {}, which is read with it",
                                 join(trained, ", "), join(frozen, ", ")),
                     "name q_proj, k_proj and v_proj together, and gate_proj with up_proj");
  }
  return {};
}

// All that decides about one module.
struct AdapterRules {
  const AdapterOptions& options;
  PathChoice targets, excluded;
  LayerChoice layers;
  ValueByPattern<RankPattern, std::int64_t> ranks;
  ValueByPattern<AlphaPattern, double> alphas;
};

Result<AdapterRules> make_rules(const AdapterOptions& options) {
  const bool all = is_all_linear(options.targets);
  auto targets = PathChoice::make(all ? std::vector<std::string>{} : options.targets);
  if (!targets) return targets.error();
  if (targets->is_pattern() && !options.layers.empty())
    return bad_input("layers are chosen by the targets where these are a pattern, and cannot be listed besides",
                     "put the layers' numbers into the pattern, or name the targets");
  auto excluded = PathChoice::make(options.excluded);
  if (!excluded) return excluded.error();
  auto layers = LayerChoice::make(options);
  if (!layers) return layers.error();
  auto ranks = ValueByPattern<RankPattern, std::int64_t>::make(options.rank_patterns, &RankPattern::rank);
  if (!ranks) return ranks.error();
  auto alphas = ValueByPattern<AlphaPattern, double>::make(options.alpha_patterns, &AlphaPattern::alpha);
  if (!alphas) return alphas.error();
  return AdapterRules{options,           std::move(*targets), std::move(*excluded),
                      std::move(*layers), std::move(*ranks),   std::move(*alphas)};
}

// Whether the targets choose it, before anything is excluded. A name that is the whole path holds for any layer.
Result<bool> is_target(const AdapterRules& rules, const ModelShape& shape, ModuleId module, std::string_view path) {
  if (is_all_linear(rules.options.targets)) {
    const auto weight = linear_weight(shape, module);
    if (!weight || is_head(shape, *weight)) return false;
    return rules.options.targets.empty() ? rules.layers.matches(path) : Result<bool>(true);
  }
  const auto chosen = rules.targets.matches(path);
  if (!chosen || !*chosen) return chosen;
  if (rules.targets.is_pattern() || rules.targets.names_whole(path)) return true;
  return rules.layers.matches(path);
}

Result<AdaptedModule> adapt(const AdapterRules& rules, const ModelShape& shape, ModuleId module, std::string path) {
  const auto weight = linear_weight(shape, module);
  if (!weight) return not_linear(shape, module);
  const auto rank = rules.ranks.of(path, rules.options.rank);
  if (!rank) return rank.error();
  const auto alpha = rules.alphas.of(path, rules.options.alpha);
  if (!alpha) return alpha.error();
  if (*rank < 1)
    return bad_input(fmt::format("an adapter of {} with a rank of {}", path, *rank), "a rank is a whole number from 1 on");
  const auto& sizes = shape.at(*weight).dimensions.sizes;
  const bool transposed = shape.is_transposed(*weight);
  return AdaptedModule{.weight = *weight,
                       .path = std::move(path),
                       .inputs = sizes[transposed ? 0 : 1],
                       .outputs = sizes[transposed ? 1 : 0],
                       .rank = *rank,
                       .scale = rules.options.scale_of(*rank, *alpha)};
}

Dimensions dimensions_of(std::initializer_list<std::int64_t> sizes) {
  Dimensions dimensions;
  for (const std::int64_t size : sizes) dimensions.sizes[dimensions.rank++] = size;
  return dimensions;
}

}  // namespace

std::optional<TensorId> linear_weight(const ModelShape& shape, ModuleId module) {
  const ModuleShape& found = shape.at(module);
  if (found.class_name != "Linear" && found.class_name != "Conv1D") return std::nullopt;
  for (std::size_t i = 0; i < found.tensor_count; ++i)
    if (shape.tensors[found.first_tensor + i].dimensions.rank == 2) return TensorId{found.first_tensor + i};
  return std::nullopt;
}

Result<std::vector<AdaptedModule>> adapted_modules(const ModelShape& shape, const AdapterOptions& options) {
  const auto rules = make_rules(options);
  if (!rules) return rules.error();
  std::vector<AdaptedModule> adapted;
  bool any_left_out = false;
  for (std::size_t i = 1; i < shape.modules.size(); ++i) {
    const ModuleId module{i};
    std::string path = shape.path(module);
    const auto target = is_target(*rules, shape, module, path);
    if (!target) return target.error();
    if (!*target) continue;
    const auto excluded = rules->excluded.matches(path);
    if (!excluded) return excluded.error();
    if (*excluded || is_saved(path, options)) {
      any_left_out = true;
      continue;
    }
    auto one = adapt(*rules, shape, module, std::move(path));
    if (!one) return one.error();
    adapted.push_back(std::move(*one));
  }
  if (adapted.empty()) return no_match(shape, options, any_left_out);
  return adapted;
}

Result<void> check_asked_modules(const ModelShape& shape, const AdapterOptions& asked) {
  if (const auto saved = saved_parameters(shape, asked); !saved)
    return bad_input(fmt::format("model.modules_to_save: {}", saved.error().what), saved.error().remedy);
  if (const auto modules = adapted_modules(shape, asked); !modules)
    return bad_input(fmt::format("model.lora_target_modules: {}", modules.error().what), modules.error().remedy);
  return {};
}

bool parts_tied(const ModelShape& shape, const AdapterOptions& options) {
  const auto saved = saved_parameters(shape, options);
  if (!saved) return false;
  const auto is_in = [&](TensorId id) { return std::ranges::find(*saved, id) != saved->end(); };
  for (std::size_t i = 0; i < shape.tensors.size(); ++i)
    if (const auto first = shape.tensors[i].same_as; first && (is_in(TensorId{i}) || is_in(*first))) return true;
  return false;
}

Result<std::vector<TensorId>> saved_parameters(const ModelShape& shape, const AdapterOptions& options) {
  std::vector<bool> saved(shape.tensors.size());
  for (const std::string& name : options.saved_modules) {
    bool found = false;
    for (std::size_t i = 1; i < shape.modules.size(); ++i) {
      if (name.empty() || !shape.path(ModuleId{i}).ends_with(name)) continue;
      found = true;
      for (std::size_t module = i; module < shape.modules[i].end; ++module)
        for (std::size_t k = 0; k < shape.modules[module].tensor_count; ++k) {
          const std::size_t tensor = shape.modules[module].first_tensor + k;
          saved[tensor] = shape.tensors[tensor].kind == TensorKind::parameter;
        }
    }
    if (!found) return bad_input(fmt::format("no module of the model is called {}, which is to be trained as a whole", name),
                                 "name a module, such as lm_head or embed_tokens");
  }
  std::vector<TensorId> ids;
  for (std::size_t i = 0; i < saved.size(); ++i)
    if (saved[i]) ids.push_back(TensorId{i});
  if (auto whole = check_whole_groups(shape, saved); !whole) return whole.error();
  return ids;
}

std::string lora_a_name(std::string_view path) { return fmt::format("{}.lora_A.weight", path); }
std::string lora_b_name(std::string_view path) { return fmt::format("{}.lora_B.weight", path); }
std::string lora_magnitude_name(std::string_view path) { return fmt::format("{}.lora_magnitude_vector", path); }

std::vector<AdapterTensor> adapter_tensors(const ModelShape& shape, const AdapterOptions& options,
                                           const std::vector<AdaptedModule>& modules,
                                           const std::vector<TensorId>& saved) {
  std::vector<AdapterTensor> tensors;
  for (const AdaptedModule& module : modules) {
    tensors.push_back({lora_a_name(module.path), dimensions_of({module.rank, module.inputs})});
    tensors.push_back({lora_b_name(module.path), dimensions_of({module.outputs, module.rank})});
    if (options.weight_decomposed) tensors.push_back({lora_magnitude_name(module.path), dimensions_of({module.outputs})});
  }
  for (const TensorId id : saved) tensors.push_back({shape.path(id), shape.at(id).dimensions});
  return tensors;
}

std::vector<std::string> target_names(const ModelShape& shape, const AdapterOptions& options,
                                      const std::vector<AdaptedModule>& modules) {
  AdapterOptions named = options;
  named.targets.clear();
  for (const AdaptedModule& module : modules) {
    const std::string name = module.path.substr(module.path.rfind('.') + 1);
    if (std::ranges::find(named.targets, name) == named.targets.end()) named.targets.push_back(name);
  }
  if (const auto chosen = adapted_modules(shape, named); chosen && *chosen == modules) return named.targets;
  std::vector<std::string> paths;
  for (const AdaptedModule& module : modules) paths.push_back(module.path);
  return paths;
}

}  // namespace muster::spec

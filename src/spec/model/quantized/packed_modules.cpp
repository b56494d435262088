#include "spec/model/quantized/packed_modules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "spec/model/adapters/adapted_modules.hpp"
#include "spec/model/adapters/path_pattern.hpp"

namespace muster::spec {
namespace {

struct Skipped {
  std::string text;
  PathPattern pattern;  // a path that begins so
};

Result<std::vector<Skipped>> compile(const std::vector<std::string>& texts) {
  std::vector<Skipped> all;
  for (const std::string& text : texts) {
    // Alone, so that a half of it cannot be completed by what is put around it.
    if (auto alone = PathPattern::compile(text); !alone) return alone.error();
    auto pattern = PathPattern::compile(fmt::format("(?:{})(?:(?<=\\.)|(?=\\.|$)).*", text));
    if (!pattern) return pattern.error();
    all.push_back({text, std::move(*pattern)});
  }
  return all;
}

Result<bool> is_skipped(const std::vector<Skipped>& skipped, const std::string& path) {
  for (const Skipped& one : skipped) {
    if (path.ends_with(one.text)) return true;
    const auto begins = one.pattern.matches(path);
    if (!begins) return begins.error();
    if (*begins) return true;
  }
  return false;
}

Result<void> check_groups(const ModelShape& shape, const std::vector<TensorId>& packed) {
  for (const std::vector<TensorId>& group : read_together(shape)) {
    std::vector<std::string> in_codes, as_they_are;
    for (const TensorId weight : group) {
      const bool is_packed = std::ranges::find(packed, weight) != packed.end();
      (is_packed ? in_codes : as_they_are).push_back(shape.path(weight));
    }
    if (in_codes.empty() || as_they_are.empty()) continue;
    return bad_input(fmt::format("model.llm_int8_skip_modules leaves {} as it is, but not {}, which is read with it",
                                 join(as_they_are, ", "), join(in_codes, ", ")),
                     "skip q_proj, k_proj and v_proj together, and gate_proj with up_proj");
  }
  return {};
}

}  // namespace

Result<std::vector<TensorId>> packable_weights(const ModelShape& shape, const std::vector<std::string>& skipped) {
  const auto patterns = compile(skipped);
  if (!patterns) return patterns.error();
  std::vector<TensorId> packed;
  std::size_t end_of_block = 0;
  for (std::size_t i = 1; i < shape.modules.size(); ++i) {
    const ModuleId module{i};
    if (i >= end_of_block && shape.is_whole(module)) end_of_block = shape.at(module).end;
    if (i >= end_of_block) continue;
    const auto weight = linear_weight(shape, module);
    if (!weight) continue;
    const auto left_out = is_skipped(*patterns, shape.path(module));
    if (!left_out) return left_out.error();
    if (!*left_out) packed.push_back(*weight);
  }
  return packed;
}

Result<std::vector<TensorId>> packed_weights(const ModelShape& shape, const std::vector<std::string>& skipped) {
  auto packed = packable_weights(shape, skipped);
  if (!packed) return packed;
  if (auto checked = check_groups(shape, *packed); !checked) return checked.error();
  return packed;
}

void leave_out_parted_groups(const ModelShape& shape, PackedByName& packed) {
  const auto form = [&](const TensorId weight) -> std::optional<WeightPacking> {
    const auto found = packed.find(shape.path(weight));
    if (found == packed.end()) return std::nullopt;
    WeightPacking form = found->second;
    form.double_quantized = false;
    return form;
  };
  for (const std::vector<TensorId>& group : read_together(shape)) {
    const auto first = form(group.front());
    if (std::ranges::all_of(group, [&](const TensorId weight) { return form(weight) == first; })) continue;
    for (const TensorId weight : group) packed.erase(shape.path(weight));
  }
}

std::vector<std::vector<TensorId>> read_together(const ModelShape& shape) {
  using enum TensorRole;
  std::vector<std::vector<TensorId>> groups;
  for (const TensorShape& tensor : shape.tensors) {
    if (!tensor.layer || tensor.bias || (tensor.role != query && tensor.role != gate)) continue;
    std::vector<TensorId>& group = groups.emplace_back();
    for (const TensorRole role : tensor.role == query ? std::vector{query, key, value} : std::vector{gate, up})
      if (const auto weight = shape.find(role, tensor.layer)) group.push_back(*weight);
  }
  return groups;
}

}  // namespace muster::spec

#include "plan/compat_ties.hpp"

#include <algorithm>
#include <map>

namespace muster::plan {

using spec::TensorId;

std::vector<TieGroup> tie_groups(const spec::ModelShape& shape) {
  std::map<TensorId, TieGroup> by_original;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    if (!shape.tensors[i].same_as || shape.tensors[i].kind != spec::TensorKind::parameter) continue;
    TensorId original = id;
    while (shape.at(original).same_as) original = *shape.at(original).same_as;
    TieGroup& group = by_original[original];
    if (group.empty()) group.push_back({shape.path(original) + '.', original});
    group.push_back({shape.path(id) + '.', id});
  }
  std::vector<TieGroup> groups;
  for (auto& [original, group] : by_original) {
    std::sort(group.begin(), group.end(), [&](const TiedName& a, const TiedName& b) {
      return shape.path(a.tensor) < shape.path(b.tensor);  // without the dot, which sorts before letters
    });
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<TensorId> names_outside(const std::vector<TieGroup>& groups, std::string_view module_path) {
  const std::string dotted = std::string(module_path) + '.';
  std::vector<TensorId> outside;
  for (const TieGroup& group : groups) {
    const std::size_t before = outside.size();
    for (const TiedName& name : group)
      if (name.dotted.find(dotted) == std::string::npos) outside.push_back(name.tensor);
    if (outside.size() - before == group.size()) outside.resize(before);  // no name inside
  }
  return outside;
}

}  // namespace muster::plan

#include "spec/model/packed_modules.hpp"

#include <fmt/format.h>

#include "spec/model/adapted_modules.hpp"
#include "spec/model/path_pattern.hpp"

namespace muster::spec {
namespace {

struct Skip {
  std::string end;
  PathPattern beginning;
};

Result<std::vector<Skip>> compile(const std::vector<std::string>& skipped) {
  std::vector<Skip> skips;
  for (const std::string& text : skipped) {
    auto pattern = PathPattern::compile(fmt::format(R"((?:{})(?:(?<=\.)|(?=\.|$)).*)", text));
    if (!pattern) return bad_input(fmt::format("model.llm_int8_skip_modules: {}", pattern.error().what), pattern.error().remedy);
    skips.push_back({text, std::move(*pattern)});
  }
  return skips;
}

Result<bool> is_skipped(const std::vector<Skip>& skips, const std::string& path) {
  for (const Skip& skip : skips) {
    if (path.ends_with(skip.end)) return true;
    const auto matched = skip.beginning.matches(path);
    if (!matched || *matched) return matched;
  }
  return false;
}

}  // namespace

Result<std::vector<TensorId>> packed_weights(const ModelShape& shape, const std::vector<std::string>& skipped) {
  const auto skips = compile(skipped);
  if (!skips) return skips.error();
  std::vector<TensorId> packed;
  for (std::size_t i = 0; i < shape.modules.size(); ++i) {
    const auto weight = linear_weight(shape, ModuleId{i});
    if (!weight || shape.at(*weight).role == TensorRole::head) continue;
    const auto skip = is_skipped(*skips, shape.path(ModuleId{i}));
    if (!skip) return skip.error();
    if (!*skip) packed.push_back(*weight);
  }
  return packed;
}

}  // namespace muster::spec

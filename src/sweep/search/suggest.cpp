#include "sweep/search/suggest.hpp"

#include "sweep/search/bayes.hpp"
#include "sweep/tried_settings.hpp"

namespace muster::sweep {
namespace {

std::optional<Suggestion> suggest_random(const SweepSpec& spec, const TriedSettings& tried) {
  return first_untried(spec.space, tried, [&](std::uint64_t index) {
    Chance chance(spec.seed, index);
    return draw_point(spec.space, chance);
  });
}

}  // namespace

std::optional<Suggestion> suggest(const SweepSpec& spec, const History& history) {
  const TriedSettings tried(spec.space, history);
  if (const auto count = count_points(spec.space); count && tried.count() >= *count) return std::nullopt;
  switch (spec.method) {
    case Method::grid:
      return first_untried_of_grid(spec.space, tried);
    case Method::random:
      return suggest_random(spec, tried);
    case Method::bayes:
      return suggest_bayes(spec, history, tried);
  }
  return std::nullopt;
}

}  // namespace muster::sweep

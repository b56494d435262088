#include "sweep/suggest.hpp"

#include "sweep/bayes.hpp"
#include "sweep/tried_settings.hpp"

namespace muster::sweep {
namespace {

// The first point of the grid that was not tried.
std::optional<Suggestion> suggest_grid(const Space& space, const TriedSettings& tried) {
  const std::uint64_t count = count_points(space).value_or(0);
  for (std::uint64_t index = 0; index < count; ++index)
    if (Settings settings = grid_settings(space, index); !tried.contains(settings)) return Suggestion{settings, {}};
  return std::nullopt;
}

// The first of an endless row of draws that was not tried: which draws those were is all that counts.
std::optional<Suggestion> suggest_random(const SweepSpec& spec, const TriedSettings& tried) {
  constexpr std::uint64_t most_draws = 20000;  // then few points are left, and looking for them is faster
  for (std::uint64_t index = 0; index < tried.count() + most_draws; ++index) {
    Chance chance(spec.seed, index);
    if (Settings settings = settings_at(spec.space, draw_point(spec.space, chance)); !tried.contains(settings))
      return Suggestion{settings, {}};
  }
  return suggest_grid(spec.space, tried);
}

}  // namespace

std::optional<Suggestion> suggest(const SweepSpec& spec, const History& history) {
  const TriedSettings tried(spec.space, history);
  if (const auto count = count_points(spec.space); count && tried.count() >= *count) return std::nullopt;
  switch (spec.method) {
    case Method::grid:
      return suggest_grid(spec.space, tried);
    case Method::random:
      return suggest_random(spec, tried);
    case Method::bayes:
      return suggest_bayes(spec, history, tried);
  }
  return std::nullopt;
}

}  // namespace muster::sweep

// Which settings of a space a sweep has already tried.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "sweep/space.hpp"
#include "sweep/search/suggest.hpp"

namespace muster::sweep {

class TriedSettings {
 public:
  TriedSettings(const Space& space, const History& history);

  bool contains(const Settings& settings) const { return keys_.contains(key_of(settings)); }
  // How many different ones are in the space.
  std::size_t count() const { return keys_.size(); }

 private:
  std::string key_of(const Settings& settings) const;

  const Space& space_;
  std::set<std::string> keys_;
};

// The first point of the grid that was not tried; nothing when all were, or when the space is not a grid.
std::optional<Suggestion> first_untried_of_grid(const Space& space, const TriedSettings& tried);

// The first untried one in an endless sequence of points: only which were tried counts, not how or when.
// If hardly any point is left, one that the sequence would not reach for a long time.
std::optional<Suggestion> first_untried(const Space& space, const TriedSettings& tried,
                                        const std::function<Point(std::uint64_t index)>& row);

}  // namespace muster::sweep

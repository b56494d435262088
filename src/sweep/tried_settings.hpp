// Which settings of a space a sweep has had already.
#pragma once

#include <set>
#include <string>

#include "sweep/space.hpp"
#include "sweep/suggest.hpp"

namespace muster::sweep {

class TriedSettings {
 public:
  TriedSettings(const Space& space, const History& history);

  bool contains(const Settings& settings) const { return keys_.contains(key_of(settings)); }
  // How many different ones, of those that lie in the space.
  std::size_t count() const { return keys_.size(); }

 private:
  std::string key_of(const Settings& settings) const;

  const Space& space_;
  std::set<std::string> keys_;
};

}  // namespace muster::sweep

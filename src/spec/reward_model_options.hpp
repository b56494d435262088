// What a reward model learns from pairs of texts, as ranks get it.
#pragma once

namespace muster::spec {

struct RewardModelOptions {
  double centering = 0;  // of the mean square of a pair's scores, added up

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("centering", self.centering);
  }
  bool operator==(const RewardModelOptions&) const = default;
};

}  // namespace muster::spec

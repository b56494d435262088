// Low-rank adapters as a user asks for them: y = W·x + scale · B·(A·x), of which A [rank, inputs] and B [outputs, rank]
// are trained.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::spec {

// Modules with a rank, or an alpha, of their own: PEFT's rank_pattern and alpha_pattern. The pattern is a regular
// expression for the whole path or for its end after a dot; the first one that matches counts.
struct RankPattern {
  std::string pattern;
  std::int64_t rank = 0;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("pattern", self.pattern);
    visit("rank", self.rank);
  }
  bool operator==(const RankPattern&) const = default;
};
struct AlphaPattern {
  std::string pattern;
  double alpha = 0;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("pattern", self.pattern);
    visit("alpha", self.alpha);
  }
  bool operator==(const AlphaPattern&) const = default;
};

struct AdapterOptions {
  std::int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;                 // share of an adapter's inputs that is left out in training
  bool rank_stabilized = false;       // the scale is alpha / √rank, not alpha / rank
  bool weight_decomposed = false;     // DoRA: a trained magnitude for each output, use_dora
  std::vector<std::string> targets;   // PEFT's target_modules: names or one pattern; empty: every linear layer but the head
  std::vector<std::string> excluded;  // PEFT's exclude_modules
  std::vector<std::string> saved_modules;     // modules_to_save: trained as a whole, without an adapter
  std::vector<std::int64_t> layers;           // layers_to_transform: only these, where targets are names; empty: all
  std::vector<std::string> layers_patterns;   // layers_pattern: what stands before a layer's number; empty: anything
  std::vector<RankPattern> rank_patterns;
  std::vector<AlphaPattern> alpha_patterns;

  double scale() const { return scale_of(rank, alpha); }
  double scale_of(std::int64_t some_rank, double some_alpha) const {
    const auto of_rank = static_cast<double>(some_rank);
    return some_alpha / (rank_stabilized ? std::sqrt(of_rank) : of_rank);
  }

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("rank", self.rank);
    visit("alpha", self.alpha);
    visit("dropout", self.dropout);
    visit("rank_stabilized", self.rank_stabilized);
    visit("weight_decomposed", self.weight_decomposed);
    visit("targets", self.targets);
    visit("excluded", self.excluded);
    visit("saved_modules", self.saved_modules);
    visit("layers", self.layers);
    visit("layers_patterns", self.layers_patterns);
    visit("rank_patterns", self.rank_patterns);
    visit("alpha_patterns", self.alpha_patterns);
  }
  bool operator==(const AdapterOptions&) const = default;
};

}  // namespace muster::spec

// The rotary position embedding's settings: how fast each pair of a head's elements turns with the position.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace muster::spec {

enum class RopeKind {
  standard,
  linear,    // every frequency divided by the factor
  dynamic,   // the base grows with the sequence, beyond the positions the model was made for
  yarn,      // slow frequencies divided by the factor, fast ones kept, a ramp between
  longrope,  // a factor for each frequency: one list up to the original positions, one beyond
  llama3,    // slow frequencies divided by the factor, fast ones kept, a smooth step between
};
// "default", "llama3": config.json's rope_type.
std::string_view name(RopeKind kind);

struct Rope {
  RopeKind kind = RopeKind::standard;
  double theta = 10000;
  double factor = 1;
  std::int64_t original_positions = 0;     // what the model was originally trained with; yarn, longrope, llama3
  std::optional<double> attention_factor;  // on cosines and sines; absent: what the kind's paper says
  double beta_fast = 32;                   // yarn
  double beta_slow = 1;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  bool truncate = true;
  double low_frequency_factor = 1;  // llama3
  double high_frequency_factor = 4;
  std::vector<double> short_factors;  // longrope: one for each pair of a head's elements
  std::vector<double> long_factors;
  bool operator==(const Rope&) const = default;
};

}  // namespace muster::spec

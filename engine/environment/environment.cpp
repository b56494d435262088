#include "environment/environment.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/bit_mix.hpp"
#include "environment/code_environment.hpp"
#include "environment/debate_environment.hpp"
#include "environment/math_environment.hpp"
#include "environment/program_environment.hpp"
#include "environment/tool_environment.hpp"
#include "system/allotted_cores.hpp"

namespace muster::environment {

Result<std::unique_ptr<Environment>> make_environment(const spec::EnvironmentOptions& options) {
  if (options.server) return make_program_environment(options);
  switch (options.kind) {
    case spec::EnvironmentKind::code:
      return make_code_environment(options);
    case spec::EnvironmentKind::math:
      return make_math_environment(options);
    case spec::EnvironmentKind::tool:
      return make_tool_environment(options);
    case spec::EnvironmentKind::debate:
      return make_debate_environment(options);
    case spec::EnvironmentKind::program:
      return make_program_environment(options);
  }
  throw std::logic_error("an environment without a place");
}

std::string_view name_of(spec::EnvironmentKind kind) {
  for (const auto& word : words(kind))
    if (word.value == kind) return word.text;
  throw std::logic_error("an environment without a name");
}

std::size_t steps_at_once(const spec::EnvironmentOptions& options) {
  constexpr std::int64_t of_programs = 32;
  if (options.at_once) return static_cast<std::size_t>(*options.at_once);
  const bool waits = options.server || options.kind == spec::EnvironmentKind::program;
  return static_cast<std::size_t>(waits ? of_programs : std::max(allotted_cores(), 1));
}

std::uint64_t seed_of_row(std::uint64_t seed, std::uint64_t row) { return mix_bits(seed + (row + 1) * golden_step); }

std::optional<double> worth_of(const std::vector<std::optional<double>>& rewards, const spec::EnvironmentOptions& options) {
  double sum = 0;
  for (const std::optional<double>& reward : rewards) {
    if (!reward) return std::nullopt;
    sum += *reward;
  }
  const double worth = options.scale * sum + options.bias;
  if (!std::isfinite(worth)) return std::nullopt;
  return options.clip ? std::clamp(worth, -*options.clip, *options.clip) : worth;
}

}  // namespace muster::environment

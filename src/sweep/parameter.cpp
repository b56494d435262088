#include "sweep/parameter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.hpp"
#include "sweep/search/normal_curve.hpp"

namespace muster::sweep {
namespace {

bool is_list(const Parameter& parameter) {
  return parameter.distribution == Distribution::constant || parameter.distribution == Distribution::values ||
         parameter.distribution == Distribution::categorical;
}

// The scale on which a parameter is uniform or normal.
double warp(const Parameter& parameter, double value) {
  switch (parameter.distribution) {
    case Distribution::log_uniform:
    case Distribution::log_normal:
      return std::log(value);
    case Distribution::logit_normal:
      return std::log(value) - std::log1p(-value);
    default:
      return value;
  }
}

// To as many digits as are meaningful: the rest is noise from converting to a unit and back (0.0020000000000000005).
// Bounds that differ only there keep what lies between them.
double without_noise(const Parameter& parameter, double value) {
  constexpr int digits = 12;
  constexpr double hardly = 1e-9;
  const double rounded = parse_number<double>(fmt::format("{:.{}g}", value, digits)).value_or(value);
  return std::abs(rounded - value) < hardly * (parameter.max - parameter.min) ? rounded : value;
}

double unwarp(const Parameter& parameter, double warped) {
  switch (parameter.distribution) {
    case Distribution::log_uniform:
    case Distribution::log_normal:
      return std::exp(warped);
    case Distribution::logit_normal:
      return 1 / (1 + std::exp(-warped));
    default:
      return warped;
  }
}

// 3 × 0.1 is 0.30000000000000004, 3 / 10 is 0.3.
double multiple_of(double count, double step) {
  const double parts = std::round(1 / step);
  return parts >= 1 && std::abs(parts * step - 1) < 1e-12 ? count / parts : count * step;
}

double middle_of_cell(std::uint64_t index, std::uint64_t count) {
  return -1 + (2 * static_cast<double>(index) + 1) / static_cast<double>(count);
}

std::uint64_t cell_of(double unit, std::uint64_t count) {
  const double place = std::floor((unit + 1) / 2 * static_cast<double>(count));
  return static_cast<std::uint64_t>(std::clamp(place, 0.0, static_cast<double>(count - 1)));
}

// Lists and whole numbers are cells of equal width: each value is drawn equally often.
bool has_cells(const Parameter& parameter) {
  return is_list(parameter) || parameter.distribution == Distribution::int_uniform ||
         parameter.distribution == Distribution::uniform_pow2;
}

double first_multiple(const Parameter& parameter) { return std::round(parameter.min / parameter.step); }

std::optional<std::uint64_t> index_of(const Parameter& parameter, const Value& value) {
  if (is_list(parameter)) {
    const auto found = std::ranges::find_if(parameter.values, [&](const Value& listed) { return same(listed, value); });
    if (found == parameter.values.end()) return std::nullopt;
    return static_cast<std::uint64_t>(found - parameter.values.begin());
  }
  const auto number = number_of(value);
  if (!number || !(*number >= parameter.min && *number <= parameter.max)) return std::nullopt;
  double place = *number - parameter.min;
  if (parameter.distribution == Distribution::uniform_pow2) place = std::log2(*number) - std::log2(parameter.min);
  if (place != std::floor(place)) return std::nullopt;
  return static_cast<std::uint64_t>(place);
}

}  // namespace

std::string_view word(Distribution distribution) {
  constexpr std::array<std::string_view, 9> words{"constant",    "values",      "categorical",
                                                  "uniform",     "int_uniform", "uniform_pow2",
                                                  "log_uniform", "log_normal",  "logit_normal"};
  return words[static_cast<std::size_t>(distribution)];
}

bool varies(const Parameter& parameter) {
  const auto count = count_values(parameter);
  return !count || *count > 1;
}

bool is_ordered(const Parameter& parameter) {
  if (!is_list(parameter)) return true;
  return parameter.distribution == Distribution::values &&
         std::ranges::all_of(parameter.values, [](const Value& value) { return number_of(value).has_value(); });
}

std::optional<std::uint64_t> count_values(const Parameter& parameter) {
  if (is_list(parameter)) return parameter.values.size();
  if (parameter.distribution == Distribution::int_uniform)
    return static_cast<std::uint64_t>(parameter.max - parameter.min) + 1;
  if (parameter.distribution == Distribution::uniform_pow2)
    return static_cast<std::uint64_t>(std::log2(parameter.max) - std::log2(parameter.min)) + 1;
  if (parameter.step > 0)
    return static_cast<std::uint64_t>(std::round(parameter.max / parameter.step) - first_multiple(parameter)) + 1;
  return std::nullopt;
}

Value value_at_index(const Parameter& parameter, std::uint64_t index) {
  if (is_list(parameter)) return parameter.values[index];
  const auto place = static_cast<double>(index);
  if (parameter.distribution == Distribution::int_uniform) return static_cast<std::int64_t>(parameter.min + place);
  if (parameter.distribution == Distribution::uniform_pow2) {
    const double power = parameter.min * std::exp2(place);
    if (power < 1) return power;
    return static_cast<std::int64_t>(power);
  }
  return multiple_of(first_multiple(parameter) + place, parameter.step);
}

std::optional<double> to_unit(const Parameter& parameter, const Value& value) {
  if (has_cells(parameter)) {
    const auto index = index_of(parameter, value);
    if (!index) return std::nullopt;
    return middle_of_cell(*index, count_values(parameter).value());
  }
  const auto number = number_of(value);
  if (!number || !(*number >= parameter.min && *number <= parameter.max)) return std::nullopt;
  const double low = warp(parameter, parameter.min), high = warp(parameter, parameter.max);
  return std::clamp(-1 + 2 * (warp(parameter, *number) - low) / (high - low), -1.0, 1.0);
}

Value from_unit(const Parameter& parameter, double unit) {
  if (has_cells(parameter)) return value_at_index(parameter, cell_of(unit, count_values(parameter).value()));
  double value = parameter.min;
  if (unit >= 1) {
    value = parameter.max;
  } else if (unit > -1) {
    const double low = warp(parameter, parameter.min), high = warp(parameter, parameter.max);
    value = without_noise(parameter, unwarp(parameter, low + (high - low) * (unit + 1) / 2));
    value = std::clamp(value, parameter.min, parameter.max);
  }
  return parameter.step > 0 ? multiple_of(std::round(value / parameter.step), parameter.step) : value;
}

double draw_unit(const Parameter& parameter, double share) {
  const bool normal =
      parameter.distribution == Distribution::log_normal || parameter.distribution == Distribution::logit_normal;
  if (!normal) return 2 * share - 1;
  const double below = normal_cumulative((-1 - parameter.centre) / parameter.scale);
  const double above = normal_cumulative((1 - parameter.centre) / parameter.scale);
  const double drawn = parameter.centre + parameter.scale * normal_quantile(below + share * (above - below));
  return std::clamp(drawn, -1.0, 1.0);
}

}  // namespace muster::sweep

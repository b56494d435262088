#include "base/duration.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/text.hpp"

namespace muster {

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double milliseconds;
  };
  constexpr std::array units{Unit{"", 1000},     Unit{"ms", 1},      Unit{"s", 1000},    Unit{"m", 60000},
                             Unit{"min", 60000}, Unit{"h", 3600000}, Unit{"d", 86400000}};
  const std::string_view whole = trim(text);
  const auto unit_start = whole.find_first_not_of("0123456789.");
  const std::string_view unit = unit_start == std::string_view::npos ? "" : trim(whole.substr(unit_start));
  const auto number = parse_number<double>(whole.substr(0, unit_start));
  for (const Unit& known : units) {
    if (!number || known.name != unit) continue;
    const double span = *number * known.milliseconds;
    if (span <= 1e13) return std::chrono::milliseconds(std::llround(span));
  }
  return Error{Error::Kind::bad_input, fmt::format("\"{}\" is not a span of time", text), "write 30s, 5m, 2h or 500ms"};
}

std::string to_string(std::chrono::milliseconds span) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(span).count();
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 86400) return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{} d {} h", seconds / 86400, seconds / 3600 % 24);
}

}  // namespace muster

#include "base/byte_count.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/text.hpp"

namespace muster {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array units{
    Unit{"b", 1},
    Unit{"kib", 1024.0},
    Unit{"mib", 1048576.0},
    Unit{"gib", 1073741824.0},
    Unit{"tib", 1099511627776.0},
    Unit{"kb", 1e3},
    Unit{"mb", 1e6},
    Unit{"gb", 1e9},
    Unit{"tb", 1e12},
};

Error not_a_size(std::string_view text, std::string_view remedy) {
  return {Error::Kind::bad_input, fmt::format("\"{}\" is not a size", text), std::string(remedy)};
}

}  // namespace

Result<ByteCount> parse_byte_count(std::string_view text) {
  constexpr std::string_view accepted =
      "write a number with GiB, MiB or KiB (binary) or GB, MB or KB (decimal), as in 20GiB";
  const std::string_view whole = trim(text);
  const auto unit_start = whole.find_first_not_of("0123456789.");
  const std::string_view digits = whole.substr(0, unit_start);
  const std::string_view unit = unit_start == std::string_view::npos ? "" : trim(whole.substr(unit_start));
  const auto number = parse_number<double>(digits);
  if (!number || !std::isfinite(*number)) return not_a_size(text, accepted);
  if (unit.size() > 1 && unit.back() == 'b' && unit != to_lower(unit)) {
    const std::string bytes_unit = std::string(unit.substr(0, unit.size() - 1)) + "B";
    return not_a_size(text, fmt::format("a lower-case b means bits; write {}{} for bytes", digits, bytes_unit));
  }
  double factor = 0;
  if (unit.empty()) factor = 1;
  for (const Unit& known : units)
    if (known.name == to_lower(unit)) factor = known.bytes;
  if (factor == 0) return not_a_size(text, accepted);
  const double bytes = *number * factor;
  if (bytes > 9.0e18) return not_a_size(text, "it is larger than any memory");
  return ByteCount{static_cast<std::int64_t>(std::llround(bytes))};
}

std::string to_string(ByteCount bytes) {
  const double value = static_cast<double>(bytes.value);
  const double magnitude = std::abs(value);
  for (const auto& [name, size] :
       {Unit{"TiB", 1099511627776.0}, Unit{"GiB", 1073741824.0}, Unit{"MiB", 1048576.0}, Unit{"KiB", 1024.0}})
    if (magnitude >= size)
      return magnitude / size < 99.95 ? fmt::format("{:.1f} {}", value / size, name)
                                      : fmt::format("{:.0f} {}", value / size, name);
  return fmt::format("{} B", bytes.value);
}

}  // namespace muster

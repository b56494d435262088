#include "store/timestamp.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "base/text.hpp"

namespace muster::store {
namespace {

using std::chrono::floor;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::time_t whole_seconds(Moment moment) {
  return static_cast<std::time_t>(floor<seconds>(moment).time_since_epoch().count());
}

std::tm local_time(Moment moment) {
  const std::time_t time = whole_seconds(moment);
  std::tm parts{};
  ::localtime_r(&time, &parts);
  return parts;
}

// The digits at [from, from + length) as a number within bounds.
std::optional<int> digits(std::string_view text, std::size_t from, std::size_t length, int least, int most) {
  const std::string_view part = text.substr(from, length);
  if (part.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  const auto number = parse_number<int>(part);
  return number && *number >= least && *number <= most ? number : std::nullopt;
}

}  // namespace

std::string timestamp(Moment moment) {
  const auto thousandths = floor<milliseconds>(moment - floor<seconds>(moment)).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(whole_seconds(moment)), thousandths);
}

std::optional<Moment> parse_timestamp(std::string_view text) {
  constexpr std::string_view pattern = "0000-00-00T00:00:00.000Z";
  if (text.size() != pattern.size()) return std::nullopt;
  for (std::size_t i = 0; i < pattern.size(); ++i)
    if (pattern[i] != '0' && text[i] != pattern[i]) return std::nullopt;
  const auto year = digits(text, 0, 4, 1970, 9999), month = digits(text, 5, 2, 1, 12), day = digits(text, 8, 2, 1, 31);
  const auto hour = digits(text, 11, 2, 0, 23), minute = digits(text, 14, 2, 0, 59),
             second = digits(text, 17, 2, 0, 60);
  const auto thousandths = digits(text, 20, 3, 0, 999);
  if (!year || !month || !day || !hour || !minute || !second || !thousandths) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return Moment(std::chrono::sys_days(date)) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) +
         seconds(*second) + milliseconds(*thousandths);
}

std::string folder_time(Moment moment) { return fmt::format("{:%Y%m%d-%H%M%S}", local_time(moment)); }

std::string spoken_time(Moment moment) { return fmt::format("{:%Y-%m-%d %H:%M}", local_time(moment)); }

}  // namespace muster::store

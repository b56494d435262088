#include "monitor/status_text.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace muster::monitor {
namespace {

constexpr std::string_view digits = "0123456789";

// "5,210" → 5210
std::optional<double> number_of(std::string_view text) {
  std::string plain(text);
  std::erase(plain, ',');
  return parse_number<double>(plain);
}

// "120/1200", "120"
bool take_count(std::string_view text, Progress& progress) {
  const auto slash = text.find('/');
  progress.step = parse_number<std::int64_t>(text.substr(0, slash));
  if (slash != std::string_view::npos) progress.total = parse_number<std::int64_t>(text.substr(slash + 1));
  return progress.step && *progress.step >= 0 && (slash == std::string_view::npos || progress.total);
}

// "58 s", "1 min 8 s", "2 h 5 min", "3 d 2 h"
std::optional<double> seconds_of_words(std::string_view text) {
  const std::vector<std::string> words = split(text, ' ');
  if (words.size() % 2 != 0) return std::nullopt;
  double seconds = 0;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto count = parse_number<double>(words[i]);
    const std::string& unit = words[i + 1];
    const double length = unit == "ms"    ? 0.001
                          : unit == "s"   ? 1
                          : unit == "min" ? 60
                          : unit == "h"   ? 3600
                          : unit == "d"   ? 86400
                                          : 0;
    if (!count || length == 0) return std::nullopt;
    seconds += *count * length;
  }
  return seconds;
}

// "00:12", "1:02:03"
std::optional<double> seconds_of_clock(std::string_view text) {
  double seconds = 0;
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  for (const std::string& part : parts) {
    const auto number = parse_number<int>(part);
    if (!number || *number < 0) return std::nullopt;
    seconds = seconds * 60 + *number;
  }
  return seconds;
}

// The parts of a line that are separated by two or more blanks.
std::vector<std::string_view> parts_of(std::string_view line) {
  std::vector<std::string_view> parts;
  while (!line.empty()) {
    const auto end = std::min(line.find("  "), line.size());
    if (const auto part = trim(line.substr(0, end)); !part.empty()) parts.push_back(part);
    line.remove_prefix(std::min(end + 2, line.size()));
  }
  return parts;
}

std::optional<Progress> step_line(std::string_view line) {
  constexpr std::string_view step = "step ", loss = "loss ", rate = " tokens/s", left = " left";
  Progress progress;
  const auto begin = line.find(step);
  if (begin == std::string_view::npos || (begin > 0 && line[begin - 1] != ' ')) return std::nullopt;
  const auto parts = parts_of(line.substr(begin));
  if (!take_count(parts.front().substr(step.size()), progress)) return std::nullopt;
  for (const std::string_view part : parts) {
    if (part.starts_with(loss)) progress.loss = number_of(part.substr(loss.size()));
    if (part.ends_with(rate)) progress.tokens_per_second = number_of(part.substr(0, part.size() - rate.size()));
    if (part.ends_with(left)) progress.seconds_left = seconds_of_words(part.substr(0, part.size() - left.size()));
  }
  return progress;
}

std::optional<Progress> bar_line(std::string_view line) {
  const auto bar = line.rfind('|');
  const auto open = line.find(" [", bar == std::string_view::npos ? 0 : bar);
  if (bar == std::string_view::npos || open == std::string_view::npos) return std::nullopt;
  Progress progress;
  if (!take_count(trim(line.substr(bar + 1, open - bar - 1)), progress) || !progress.total) return std::nullopt;
  const auto before = line.find('<', open);
  if (before != std::string_view::npos)
    progress.seconds_left =
        seconds_of_clock(line.substr(before + 1, line.find_first_not_of("0123456789:", before + 1) - before - 1));
  return progress;
}

}  // namespace

std::optional<Progress> progress_of_line(std::string_view line) {
  if (line.find_first_of(digits) == std::string_view::npos) return std::nullopt;
  if (auto progress = step_line(line)) return progress;
  return bar_line(line);
}

}  // namespace muster::monitor

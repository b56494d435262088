#include "runs/run_format.hpp"

#include <fmt/format.h>

#include <cmath>

#include "lease/printable_text.hpp"

namespace muster::runs {
namespace {

template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string loss_words(const std::optional<double>& loss) {
  if (!loss) return "-";
  if (*loss != 0 && std::abs(*loss) < 0.001) return fmt::format("{:.2e}", *loss);
  return fmt::format("{:.4f}", *loss);
}

std::string share_words(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f} %", *share * 100) : "-";
}

std::string span_words(const std::optional<double>& seconds) {
  if (!seconds || !std::isfinite(*seconds) || *seconds < 0 || *seconds > 1e12) return "-";
  const auto whole = std::llround(*seconds);
  if (*seconds < 10 && *seconds != std::floor(*seconds)) return fmt::format("{:.1f} s", *seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {} h", whole / 86400, whole / 3600 % 24);
}

std::string counted(double number) {
  if (!std::isfinite(number) || std::abs(number) > 1e15) return fmt::format("{:.3g}", number);
  const std::string digits = fmt::format("{:.0f}", std::abs(number));
  std::string text = number < 0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string number_words(const std::optional<double>& number) {
  if (!number) return "-";
  return *number == std::floor(*number) ? counted(*number) : fmt::format("{:.6g}", *number);
}

std::string safe_line(std::string_view text) {
  constexpr std::size_t longest = 400;
  return lease::printable(text, longest);
}

Colour colour_of(RunStatus status) {
  switch (status) {
    case RunStatus::running:
      return Colour::bold;
    case RunStatus::done:
      return Colour::green;
    case RunStatus::failed:
    case RunStatus::damaged:
      return Colour::red;
    case RunStatus::interrupted:
      return Colour::yellow;
    case RunStatus::foreign:
      return Colour::dim;
  }
  return Colour::plain;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

nlohmann::ordered_json summary_json(const RunSummary& run) {
  return {{"name", run.name},
          {"path", run.path.string()},
          {"status", name(run.status)},
          {"steps", or_null(run.steps)},
          {"final_loss", or_null(run.final_loss)},
          {"exact_match", or_null(run.exact_match)},
          {"seconds", or_null(run.seconds)},
          {"created", store::timestamp(run.created)},
          {"problem", or_null(run.problem)}};
}

}  // namespace muster::runs

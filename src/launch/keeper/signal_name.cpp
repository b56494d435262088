#include "launch/keeper/signal_name.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <cctype>

#include "base/text.hpp"

namespace muster::launch {

std::optional<std::string> signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::optional(fmt::format("SIG{}", name)) : std::nullopt;
}

std::string signal_text(int signal) { return signal_name(signal).value_or(fmt::format("signal {}", signal)); }

std::optional<int> signal_number(std::string_view name) {
  std::string upper(trim(name));
  std::ranges::transform(upper, upper.begin(), [](unsigned char letter) { return std::toupper(letter); });
  if (!upper.starts_with("SIG")) upper = "SIG" + upper;
  for (int signal = 1; signal < NSIG; ++signal)
    if (signal_name(signal) == upper) return signal;
  return std::nullopt;
}

Result<std::set<int>> parse_signal_list(std::string_view text) {
  std::set<int> signals;
  for (const std::string& word : split(text, ',')) {
    const auto signal = signal_number(word);
    if (!signal)
      return Error{Error::Kind::bad_input, fmt::format("\"{}\" is not a signal", trim(word)),
                   "a list of names, as in SIGTERM,SIGINT,SIGUSR1; kill -l shows them"};
    if (*signal == SIGKILL || *signal == SIGSTOP)
      return Error{Error::Kind::bad_input, fmt::format("no program can handle {}", signal_text(*signal)),
                   "leave it out of the list"};
    signals.insert(*signal);
  }
  return signals;
}

}  // namespace muster::launch

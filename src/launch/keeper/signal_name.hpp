// Signals by the names users write: SIGTERM.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace muster::launch {

// "SIGKILL" for 9; nothing for a signal without a name of its own.
std::optional<std::string> signal_name(int signal);
// For messages: "SIGTERM", "signal 42".
std::string signal_text(int signal);
// "SIGTERM" or "TERM", in any case.
std::optional<int> signal_number(std::string_view name);

// "SIGTERM,SIGINT". Signals that nobody can handle (SIGKILL, SIGSTOP) and unknown names are errors.
Result<std::set<int>> parse_signal_list(std::string_view text);

}  // namespace muster::launch

// The command of a trial: words in which ${…} stands for what differs from trial to trial.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sweep/value.hpp"

namespace muster::sweep {

// ${program}; ${env} (/usr/bin/env); ${interpreter} (python); ${envvar:NAME}; and the settings as arguments:
// ${args} (--path=value), ${args_no_hyphens} (path=value), ${args_no_boolean_flags} (--path for true, nothing for
// false) and ${args_json} (one JSON object). Those with several arguments must be separate words.
// What is wrong with a word, or nothing.
std::optional<Problem> check_command_word(std::string_view word);

struct TrialCommand {
  std::string program;
  std::function<std::optional<std::string>(std::string_view)> environment;  // a variable's value
};

// words have passed the check. Fails if an environment variable is not set.
Result<std::vector<std::string>> expand_command(const std::vector<std::string>& words, const Settings& settings,
                                                const TrialCommand& surroundings);

}  // namespace muster::sweep

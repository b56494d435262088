// Programs that a model wrote, judged by the tests of their rows, in a sandbox.
#pragma once

#include <memory>

#include "reward/judge.hpp"
#include "sandbox/python_judge.hpp"

namespace muster::reward {

// What the sandbox's judge is asked about one answer; an Error names the column that is missing.
struct CodeTask {
  std::string program, tests, entry_point, given;
};
Result<CodeTask> code_task(const Answered& answered);

// Tried three times, where it is the judgement that fails and not the program. Safe in several threads.
Result<sandbox::Verdict> judge_code(const sandbox::Sandbox& sandbox, const sandbox::Interpreter& interpreter,
                                    const CodeTask& task, const sandbox::Limits& limits);

// Refused where the machine grants no sandbox, or there is no Python.
Result<std::unique_ptr<Part>> make_code_part(const spec::RewardOptions& options, Report report,
                                             std::stop_token stop);

}  // namespace muster::reward

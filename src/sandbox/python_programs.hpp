// The two Python programs of a judgement, each in a sandbox of its own; they speak over their descriptor 3, a line of JSON
// at a time. See Note [What a verdict rests on] in python_judge.cpp.
#pragma once

#include <string>

namespace muster::sandbox {

// Runs the program under judgement, which it reads from standard input, and then calls its functions as it is asked.
std::string candidate_side();

// Runs the tests, which it reads from standard input with all else that is trusted, and writes what they found to
// standard output: {"ready": true}, then {"passed", "total", "failure", "detail"} or {"fault"}.
std::string tests_side();

}  // namespace muster::sandbox

// Judges programs in Python by tests, without trusting either.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sandbox/limits.hpp"
#include "sandbox/sandbox.hpp"

namespace muster::sandbox {

// A Python that sandboxes run, with the folders that it needs.
struct Interpreter {
  std::filesystem::path program;
  std::vector<std::filesystem::path> folders;
};
// By name or path; asks it where its libraries are.
Result<Interpreter> find_interpreter(const std::string& name);

struct PythonTask {
  std::string program;      // as a whole; nobody trusts it
  std::string tests;        // assert statements, or a function check(candidate) with them
  std::string entry_point;  // the function that check() gets; may be empty without one
  std::string given;        // what the program was asked to continue: tests use its helpers and imports. May be empty.
};

enum class VerdictKind { passed, wrong, error, timeout, memory, output };
std::string_view to_string(VerdictKind kind);  // "passed"

struct Verdict {
  VerdictKind kind = VerdictKind::wrong;
  int passed = 0;  // tests; all of them only where kind is passed
  int total = 1;
  std::string detail;  // of an error: "TypeError: ..."
};

// An Error is a fault of the judgement itself, which says nothing about the program: it is not 0, it is not known. The
// program cannot bring one about.
Result<Verdict> judge_python(const Sandbox& sandbox, const Interpreter& interpreter, const PythonTask& task,
                             const Limits& limits);

}  // namespace muster::sandbox

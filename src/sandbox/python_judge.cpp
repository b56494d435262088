#include "sandbox/python_judge.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <stdexcept>

#include "json/fields.hpp"
#include "sandbox/python_programs.hpp"
#include "system/files.hpp"

// Note [What a verdict rests on]
//
// The program and its tests run in two processes, each in a sandbox of its own, that share one socket. The tests' process
// asks for calls ("call f with these values") and gets plain values back: numbers, texts, lists and the like, made anew
// from JSON. It compares them itself, so that no __eq__, no builtin and no import of the program's takes part, and it alone
// has the descriptor over which the verdict leaves. Whatever the program writes to any descriptor of its own is an answer,
// right or wrong, or the end of its tests. Objects stay with the program; a test that compares one fails.
//
// Helpers that tests use are the tests' own as long as they stand in PythonTask::given; a function that only the program
// defines is called there.

namespace muster::sandbox {
namespace {

// The tests themselves take time; and they are to see the end of a program that is at its limit.
constexpr std::chrono::seconds time_of_tests(10);

struct Places {
  std::string executable, prefix, base_prefix, library;
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("executable", self.executable);
    visit("prefix", self.prefix);
    visit("base_prefix", self.base_prefix);
    visit("library", self.library);
  }
};
constexpr const char* tell_places =
    "import json, os, sys; print(json.dumps({'executable': sys.executable, 'prefix': sys.prefix, "
    "'base_prefix': sys.base_prefix, 'library': os.path.dirname(os.__file__)}))";

struct Finding {
  std::optional<std::string> fault, failure, detail;
  std::optional<int> passed, total;
  std::optional<bool> ready;
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("fault", self.fault);
    visit("failure", self.failure);
    visit("detail", self.detail);
    visit("passed", self.passed);
    visit("total", self.total);
    visit("ready", self.ready);
  }
};

Order python_order(const Interpreter& interpreter, std::string source, std::string input, FileDescriptor channel) {
  Order order;
  order.command = {interpreter.program.string(), "-s", "-B", "-c", std::move(source)};
  order.input = std::move(input);
  order.visible = interpreter.folders;
  order.environment = {{"PYTHONHASHSEED", "0"}};  // the same program gives the same answers each time
  order.handed.push_back(std::move(channel));
  return order;
}

Error fault(const std::string& what) {
  return {Error::Kind::failed, "the tests of a program could not be run: " + what, "look at the tests of this row"};
}

// What the tests wrote, as far as it came.
Result<Finding> read_finding(const Outcome& tests) {
  Finding finding;
  std::size_t begin = 0;
  while (begin < tests.output.size()) {
    const std::size_t end = std::min(tests.output.find('\n', begin), tests.output.size());
    auto line = parse_fields<Finding>(std::string_view(tests.output).substr(begin, end - begin), "a verdict");
    if (!line) break;
    if (line->fault) return fault(*line->fault);
    const bool was_ready = finding.ready.value_or(false);
    finding = std::move(*line);
    finding.ready = finding.ready.value_or(false) || was_ready;
    begin = end + 1;
  }
  // From then on the program takes part, so that whatever else fails is its own failure.
  if (finding.ready.value_or(false)) return finding;
  return fault(tests.exceeded ? fmt::format("they exceeded their limit of {}", to_string(*tests.exceeded))
                              : fmt::format("Python ended with {} {}", describe(tests.end, Limits{}.wall_time),
                                            tests.errors.substr(0, 1000)));
}

VerdictKind kind_of(const Finding& finding, const Outcome& program, const Outcome& tests) {
  if (finding.passed && !finding.failure) return VerdictKind::passed;
  if (finding.failure == "wrong") return VerdictKind::wrong;
  if (finding.failure == "memory") return VerdictKind::memory;
  if (finding.failure == "error") return VerdictKind::error;
  const auto exceeded = program.exceeded ? program.exceeded : tests.exceeded;
  if (exceeded) return exceeded == LimitKind::output ? VerdictKind::output : VerdictKind::timeout;
  // The kernel kills where the machine's memory ends.
  const bool was_killed = program.end.signal == SIGKILL && !program.called_off;
  return was_killed && finding.failure == "ended" ? VerdictKind::memory : VerdictKind::error;
}

Verdict to_verdict(const Finding& finding, const Outcome& program, const Outcome& tests) {
  Verdict verdict;
  verdict.kind = kind_of(finding, program, tests);
  verdict.passed = finding.passed.value_or(0);
  verdict.total = std::max(finding.total.value_or(1), 1);
  if (verdict.kind != VerdictKind::error) return verdict;
  verdict.detail = finding.detail.value_or("the tests did not end");
  if (finding.failure != "error" && !program.called_off)
    verdict.detail += fmt::format(" ({})", describe(program.end, Limits{}.wall_time));
  return verdict;
}

}  // namespace

std::string_view to_string(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::passed:
      return "passed";
    case VerdictKind::wrong:
      return "wrong";
    case VerdictKind::error:
      return "error";
    case VerdictKind::timeout:
      return "timeout";
    case VerdictKind::memory:
      return "memory";
    case VerdictKind::output:
      return "output";
  }
  throw std::logic_error("a verdict outside its enumeration");
}

Result<Interpreter> find_interpreter(const std::string& name) {
  constexpr std::chrono::seconds limit(30);
  const auto asked = run_process({name, "-c", tell_places}, {}, limit);
  if (!asked) return asked.error();
  const auto places = parse_fields<Places>(asked->output, name);
  if (asked->end.exit_code != 0 || !places)
    return bad_input(fmt::format("{} does not answer as Python does: {}{}", name, describe(asked->end, limit),
                                 asked->errors.empty() ? "" : ", " + asked->errors.substr(0, 200)),
                     "name a Python 3.10 or newer");
  Interpreter interpreter{places->executable, {}};
  for (const std::filesystem::path folder : {places->prefix, places->base_prefix, places->library})
    if (folder != "/" && std::ranges::find(interpreter.folders, folder) == interpreter.folders.end())
      interpreter.folders.push_back(folder);
  return interpreter;
}

Result<Verdict> judge_python(const Sandbox& sandbox, const Interpreter& interpreter, const PythonTask& task,
                             const Limits& limits) {
  std::array<int, 2> ends{}, life{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return fault(system_reason());
  Order tests = python_order(
      interpreter, tests_side(),
      as_line({{"tests", task.tests}, {"entry_point", task.entry_point}, {"given", task.given}}), FileDescriptor(ends[0]));
  Order program = python_order(interpreter, candidate_side(), task.program, FileDescriptor(ends[1]));
  if (::pipe2(life.data(), O_CLOEXEC) != 0) return fault(system_reason());
  program.until = FileDescriptor(life[0]);
  FileDescriptor until_tests_end(life[1]);

  Limits of_tests = limits;
  of_tests.cpu_time += time_of_tests;
  of_tests.wall_time += 2 * time_of_tests;
  of_tests.memory = std::max(limits.memory, gibibytes(2));
  of_tests.processes = 1;
  auto running =
      std::async(std::launch::async, [&, order = std::move(program)]() mutable { return sandbox.run(std::move(order), limits); });
  const auto tests_outcome = sandbox.run(std::move(tests), of_tests);
  FileDescriptor(std::move(until_tests_end));
  const auto outcome = running.get();
  if (!outcome) return outcome.error();
  if (!tests_outcome) return tests_outcome.error();
  const auto finding = read_finding(*tests_outcome);
  if (!finding) return finding.error();
  return to_verdict(*finding, *outcome, *tests_outcome);
}

}  // namespace muster::sandbox

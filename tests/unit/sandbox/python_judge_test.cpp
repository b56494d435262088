// Programs that are right, wrong, and hostile.
#include "sandbox/python_judge.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sandbox_fixture.hpp"

namespace muster::sandbox {
namespace {

constexpr const char* check_double =
    "def check(candidate):\n"
    "    assert candidate(1) == 2\n"
    "    assert candidate(5) == 10, 'five'\n"
    "    assert candidate('ab') == 'abab'\n"
    "    assert True, 'no test'\n";

class Judge : public Confined {
 protected:
  Result<Verdict> try_judge(PythonTask task, Limits limits = {}) const {
    return judge_python(sandbox(), python_, task, limits);
  }
  Verdict judge(PythonTask task, Limits limits = {}) const {
    const auto verdict = try_judge(std::move(task), limits);
    if (!verdict) throw std::runtime_error(to_string(verdict.error()));
    return *verdict;
  }
  Verdict judge_double(std::string program, Limits limits = {}) const {
    return judge({std::move(program), check_double, "f", ""}, limits);
  }
};

std::string text_of(const Verdict& verdict) {
  return fmt::format("{} {}/{} {}", to_string(verdict.kind), verdict.passed, verdict.total, verdict.detail);
}

TEST_P(Judge, PassesAProgramThatIsRight) { EXPECT_EQ(text_of(judge_double("def f(x): return 2 * x")), "passed 3/3 "); }

TEST_P(Judge, CountsTheTestsThatPass) {
  EXPECT_EQ(text_of(judge_double("def f(x): return x + 1 if x == 1 else x * 2")), "passed 3/3 ");
  EXPECT_EQ(text_of(judge_double("def f(x): return 2")), "wrong 1/3 ");
  EXPECT_EQ(text_of(judge_double("def f(x): return 2 * int(x)")),
            "error 2/3 ValueError: invalid literal for int() with base 10: 'ab'");
}

TEST_P(Judge, TakesAListOfAssertions) {
  const std::string tests = "assert f([1, 2]) == [2, 1]\nassert f([]) == []\nassert set(g(3)) == {0, 1, 2}";
  EXPECT_EQ(text_of(judge({"def f(x): return x[::-1]\ndef g(n): return (i for i in range(n))", tests, "", ""})),
            "passed 3/3 ");
}

TEST_P(Judge, CountsATestInALoopEachTime) {
  EXPECT_EQ(text_of(judge({"def f(x): return x if x < 7 else 0", "for i in range(10):\n    assert f(i) == i", "", ""})),
            "wrong 7/10 ");
}

TEST_P(Judge, CountsTestsThatAreNoAssertionsAsOne) {
  const std::string tests = "if f(1) != 2: raise ValueError('no')";
  EXPECT_EQ(text_of(judge({"def f(x): return 2", tests, "", ""})), "passed 1/1 ");
  EXPECT_EQ(text_of(judge({"def f(x): return 3", tests, "", ""})), "error 0/1 ValueError: no");
}

TEST_P(Judge, HandsPlainValuesToAndFro) {
  const std::string tests = R"py(
for value in (None, True, -1, 2**80, -2**5000, 1.5, float("inf"), 1e-320, 2 + 3j, "a\n\u00e9\U0001f600\ud800", b"\x00\xff", [], [[1], [2.0]],
              (1, (2,)), {1, 2}, frozenset("ab"), {}, {"a": 1, 2: (3,), (4,): None}, range(3, 9, 2)):
    assert f(value) == value and type(f(value)) is type(value)
assert f(x=(1,)) == (1,)
)py";
  EXPECT_EQ(text_of(judge({"def f(x): return x", tests, "", ""})), "passed 20/20 ");
}

TEST_P(Judge, LetsTestsUseObjectsAndExceptionsOfTheProgram) {
  const std::string program =
      "class Stack:\n"
      "    def __init__(self): self.items, self.name = [], 'stack'\n"
      "    def push(self, item): self.items.append(item)\n"
      "    def pop(self): return self.items.pop()\n"
      "def depth(stack): return len(stack.items)\n";
  const std::string tests = R"py(
s = Stack()
s.push((1, 2))
assert depth(s) == 1
assert s.name == "stack"
assert s.pop() == (1, 2)
try:
    s.pop()
    assert False
except IndexError:
    assert depth(s) == 0
)py";
  EXPECT_EQ(text_of(judge({program, tests, "", ""})), "passed 4/4 ");
}

TEST_P(Judge, GivesTestsTheHelpersThatWereGivenAndNotThoseOfTheProgram) {
  const std::string given = "import math\ndef poly(x): return x - 3\ndef f():\n    '''A zero of poly.'''\n";
  const std::string tests = "def check(candidate):\n    assert math.fabs(poly(candidate())) < 1e-6\n";
  EXPECT_EQ(text_of(judge({given + "    return 3.0", tests, "f", given})), "passed 1/1 ");
  EXPECT_EQ(text_of(judge({given + "    return 4.0\ndef poly(x): return 0\nmath.fabs = lambda x: 0", tests, "f", given})),
            "wrong 0/1 ");
}

TEST_P(Judge, TellsWhichLimitAProgramExceeded) {
  Limits limits;
  limits.cpu_time = std::chrono::seconds(1);
  EXPECT_EQ(text_of(judge_double("def f(x):\n  while x == 5: pass\n  return 2 * x", limits)), "timeout 1/3 ");
  EXPECT_EQ(text_of(judge_double("def f(x): return bytearray(1 << 40)")), "memory 0/3 ");
  EXPECT_EQ(text_of(judge_double("def f(x):\n  while True: print('x' * 1000)")), "output 0/3 ");
  limits.wall_time = std::chrono::milliseconds(1000);
  EXPECT_EQ(text_of(judge_double("import time\ndef f(x): time.sleep(1000)", limits)), "timeout 0/3 ");
}

TEST_P(Judge, DoesNotPassAProgramThatForges) {
  const std::vector<std::string> forgeries = {
      "import sys; sys.exit(0)",
      "import os; os._exit(0)",
      "def f(x):\n  import os; os._exit(0)",
      "def f(x): raise SystemExit(0)",
      "print('passed')\nprint('{\"ready\": true}\\n{\"passed\": 3, \"total\": 3, \"failure\": null}')",
      "class Any:\n  def __eq__(self, other): return True\n  def __bool__(self): return True\ndef f(x): return Any()",
      "class Any(int):\n  def __eq__(self, other): return True\n  def __ne__(self, other): return False\n"
      "def f(x): return Any(77)",
      "class Any(str):\n  def __eq__(self, other): return True\n  __hash__ = None\ndef f(x): return Any('77')",
      "import builtins, json\nbuiltins.all = builtins.any = lambda *_: True\nbuiltins.AssertionError = ValueError\n"
      "json.loads = lambda *_: {}\ndef f(x): return 77",
      "def check(candidate): pass\nclass AssertionError(Exception): pass\ndef f(x): return 77",
      "import os\nfor number in range(64):\n  for text in (b'{\"ready\": true}\\n{\"passed\": 3, \"total\": 3}\\n', b'{\"value\": true}\\n'):\n"
      "    try: os.write(number, text)\n    except OSError: pass\ndef f(x): return 77",
      "import os\nos.write(3, b'x' * 100000)",
      "import os\nos.write(3, b'{\"value\": {\"reference\": [[]]}}\\n' * 9)",
      "import os\nos.write(3, b'{\"error\": [\"Gone\", \"Fault\"]}\\n' * 9)",
      "import os\nos.write(3, b'{\"error\": [\"ImportError\", \"\"]}\\n' * 9)",
      "import os\nos.write(3, b'[' * 100000 + b'\\n')",
      "import os\nos.close(3)",
      "import os, signal\nfor pid in (1, os.getppid() or 1):\n  try: os.kill(pid, signal.SIGKILL)\n  except OSError: pass\n"
      "def f(x): return 77",
      "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f(x)",
      "import sys\ndef f(x):\n  frame = sys._getframe()\n  while frame:\n    frame.f_globals['encode'] = lambda *_: 2\n"
      "    frame = frame.f_back\n  return 77",
      "import atexit, os\natexit.register(lambda: os.write(1, b'passed'))\ndef f(x): return 77",
      "def f(x): raise AssertionError",
      "def f(x):\n  x = [];\n  x.append(x)\n  return x",
      "this is no program",
      "def g(x): return 2 * x",
      "",
  };
  Limits limits;
  limits.cpu_time = std::chrono::seconds(2);
  for (const std::string& program : forgeries) {
    const auto verdict = try_judge({program, check_double, "f", ""}, limits);
    ASSERT_TRUE(verdict) << program << "\n" << to_string(verdict.error());
    EXPECT_NE(verdict->kind, VerdictKind::passed) << program;
    EXPECT_LT(verdict->passed, verdict->total) << program;
  }
}

TEST_P(Judge, TellsHowAProgramEndedBeforeItsTests) {
  EXPECT_EQ(text_of(judge_double("import os; os._exit(3)")), "error 0/3 it ended before its tests did (exit code 3)");
  EXPECT_EQ(judge_double("import os; os.close(3)").kind, VerdictKind::error);
}

TEST_P(Judge, FailsATestThatNeedsAPlainValueAndGetsAnObject) {
  const std::string program = "class Any:\n  def __getattr__(self, name): return lambda *_: True\ndef f(x): return Any()";
  for (const char* test : {"assert f(1)", "assert not f(1)", "assert f(1) != 2", "assert 3 not in [f(1)]", "assert f(1) < 2",
                           "assert {f(1): 2}", "assert str(f(1))", "assert len([1] if f(1) else [])"})
    EXPECT_EQ(judge({program, test, "", ""}).passed, 0) << test;
}

TEST_P(Judge, FailsAProgramThatKeepsItsTestsFromRunning) {
  EXPECT_EQ(text_of(judge({"def f(): return []", "for x in f():\n    assert x == 1", "", ""})), "wrong 0/1 ");
  EXPECT_EQ(judge({"def f(): return 1 / 0", "x = f()\nassert x == 1\nassert x == 2", "", ""}).total, 2);
}

TEST_P(Judge, CallsItsOwnFaultByItsName) {
  const std::string right = "def f(x): return 2 * x";
  for (const PythonTask& task : {PythonTask{right, "assert f(1) ==", "", ""}, PythonTask{right, check_double, "", ""},
                                 PythonTask{right, "assert f(lambda: 1) == 1", "", ""},
                                 PythonTask{right, "import no_such_module\nassert f(1) == 2", "", ""},
                                 PythonTask{right, "assert f(1) == 2", "", "1 / 0"}}) {
    const auto verdict = try_judge(task);
    EXPECT_FALSE(verdict) << task.tests << "\n" << text_of(*verdict);
  }
}

TEST_P(Judge, RefusesAnInterpreterThatIsNone) {
  EXPECT_FALSE(find_interpreter("/bin/true"));
  EXPECT_FALSE(find_interpreter("/nonexistent/python"));
}

INSTANTIATE_TEST_SUITE_P(Under, Judge, ::testing::Values(Isolation::namespaces, Isolation::landlock), name_of);

}  // namespace
}  // namespace muster::sandbox

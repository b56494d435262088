#include <gtest/gtest.h>
#include <signal.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "launch/failure.hpp"
#include "testing/contains.hpp"
#include "testing/environment_variable.hpp"

namespace muster::launch {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using testing::contains;

WorkerFailure failure_of(int rank, int local_rank, pid_t pid, ProcessEnd end) {
  WorkerFailure failure;
  failure.host = "node-1";
  failure.rank = rank;
  failure.local_rank = local_rank;
  failure.pid = pid;
  failure.end = end;
  failure.time = std::chrono::system_clock::time_point(milliseconds(1'700'000'002'500));
  return failure;
}

ProcessEnd by_code(int code) { return {code, std::nullopt, false}; }
ProcessEnd by_signal(int signal) { return {std::nullopt, signal, false}; }

ErrorFile traceback_file() {
  return parse_error_file(
      "/logs/error.json",
      R"({"message": {"message": "RuntimeError: boom", "extraInfo": {"py_callstack": )"
      R"("Traceback (most recent call last):\n  File \"train.py\", line 3, in main\n    raise RuntimeError(\"boom\")\n)"
      R"(RuntimeError: boom\n", "timestamp": "1700000000"}}})");
}

// Times of the block are local ones.
class FailureReportTest : public ::testing::Test {
 protected:
  FailureReportTest() { ::tzset(); }

  // What stands after the sentence and the lines in front.
  static std::string block(const FailureReport& report) {
    const std::string text = to_text(report);
    const std::size_t at = text.find("\n\n===");
    return at == std::string::npos ? "no block in: " + text : text.substr(at + 1);
  }
  const testing::EnvironmentVariable zone_{"TZ", "UTC"};
};

// The blocks below are what torch 2.13's ChildFailedError prints for the same failures.

TEST_F(FailureReportTest, HasTorchrunsBlockForOneFailureWithATraceback) {
  WorkerFailure failure = failure_of(0, 0, 100, by_code(1));
  failure.error_file = traceback_file();
  EXPECT_EQ(block({"train.py", {failure}, std::nullopt}),
            "\n"
            "================================================\n"
            "train.py FAILED\n"
            "------------------------------------------------\n"
            "Failures:\n"
            "  <NO_OTHER_FAILURES>\n"
            "------------------------------------------------\n"
            "Root Cause (first observed failure):\n"
            "[0]:\n"
            "  time      : 2023-11-14_22:13:20\n"
            "  host      : node-1\n"
            "  rank      : 0 (local_rank: 0)\n"
            "  exitcode  : 1 (pid: 100) \n"
            "  error_file: /logs/error.json\n"
            "  traceback : Traceback (most recent call last):\n"
            "    File \"train.py\", line 3, in main\n"
            "      raise RuntimeError(\"boom\")\n"
            "  RuntimeError: boom\n"
            "  \n"
            "================================================\n");
}

TEST_F(FailureReportTest, HasTorchrunsBlockForSignalsAndSilentRanks) {
  EXPECT_EQ(block({"train.py",
                   {failure_of(3, 3, 103, by_signal(SIGKILL)), failure_of(0, 0, 100, by_code(1)),
                    failure_of(1, 1, 101, by_signal(SIGTERM))},
                   std::nullopt}),
            "\n"
            "============================================================\n"
            "train.py FAILED\n"
            "------------------------------------------------------------\n"
            "Failures:\n"
            "[1]:\n"
            "  time      : 2023-11-14_22:13:22\n"
            "  host      : node-1\n"
            "  rank      : 0 (local_rank: 0)\n"
            "  exitcode  : 1 (pid: 100) \n"
            "  error_file: <N/A>\n"
            "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
            "[2]:\n"
            "  time      : 2023-11-14_22:13:22\n"
            "  host      : node-1\n"
            "  rank      : 1 (local_rank: 1)\n"
            "  exitcode  : -15 (pid: 101)  (SIGTERM)\n"
            "  error_file: <N/A>\n"
            "  traceback : Signal 15 (SIGTERM) received by PID 101\n"
            "------------------------------------------------------------\n"
            "Root Cause (first observed failure):\n"
            "[0]:\n"
            "  time      : 2023-11-14_22:13:22\n"
            "  host      : node-1\n"
            "  rank      : 3 (local_rank: 3)\n"
            "  exitcode  : -9 (pid: 103)  (SIGKILL)\n"
            "  error_file: <N/A>\n"
            "  traceback : Signal 9 (SIGKILL) received by PID 103\n"
            "============================================================\n");
}

TEST_F(FailureReportTest, HasTorchrunsBlockForPlainMessagesAndSignalsWithoutAName) {
  WorkerFailure cause = failure_of(3, 3, 103, by_signal(SIGSEGV));
  cause.error_file = traceback_file();
  WorkerFailure plain = failure_of(0, 0, 100, by_code(1));
  plain.error_file = parse_error_file("/logs/plain.json", R"({"message": "it broke", "timestamp": 1700000001})");
  const std::string text = block({"train.py", {cause, plain, failure_of(12, 4, 104, by_signal(70))}, std::nullopt});
  EXPECT_TRUE(contains(text,
                       "Failures:\n"
                       "[1]:\n"
                       "  time      : 2023-11-14_22:13:21\n"
                       "  host      : node-1\n"
                       "  rank      : 0 (local_rank: 0)\n"
                       "  exitcode  : 1 (pid: 100) \n"
                       "  error_file: /logs/plain.json\n"
                       "  traceback : it broke\n"
                       "[2]:\n",
                       "  rank      : 12 (local_rank: 4)\n"
                       "  exitcode  : -70 (pid: 104) \n"
                       "  error_file: <N/A>\n"
                       "  traceback : Signal 70 (<N/A>) received by PID 104\n",
                       "  exitcode  : -11 (pid: 103)  (SIGSEGV)\n"));
  EXPECT_TRUE(text.starts_with("\n" + std::string(51, '=') + "\ntrain.py FAILED\n" + std::string(51, '-') + "\n"));
}

TEST_F(FailureReportTest, MeasuresItsBlockInCharacters) {
  WorkerFailure failure = failure_of(0, 0, 1, by_code(1));
  failure.error_file =
      parse_error_file("/tmp/goldenf/nocall.json",
                       R"({"message": {"message": "über\nzwei", "extraInfo": {"timestamp": "1700000000"}}})");
  const std::string text = block({"t.py", {failure}, std::nullopt});
  EXPECT_TRUE(text.starts_with("\n" + std::string(38, '=') + "\nt.py FAILED\n")) << text;
  EXPECT_TRUE(contains(text, "  traceback : über\n  zwei\n" + std::string(38, '=') + "\n"));
  const std::string umlauts = "ääääääääääääääääääääääääääääääääääääääää";  // 40 characters, 80 bytes
  EXPECT_TRUE(contains(block({umlauts, {failure}, std::nullopt}), "\n" + std::string(47, '=') + "\n"));
}

TEST_F(FailureReportTest, BeginsWithTheReasonAndTheLastLines) {
  WorkerFailure failure = failure_of(0, 0, 100, by_code(1));
  failure.explanation = "rank 0 ended with exit code 1: ValueError: x";
  failure.last_lines = {"Traceback (most recent call last):", "  File", "ValueError: x"};
  EXPECT_TRUE(to_text({"train.py", {failure}, "/logs/run_1"})
                  .starts_with("rank 0 ended with exit code 1: ValueError: x\n"
                               "the last lines of its standard error:\n"
                               "  Traceback (most recent call last):\n"
                               "    File\n"
                               "  ValueError: x\n"
                               "logs: /logs/run_1\n"
                               "\n====="));
}

TEST_F(FailureReportTest, DoesNotRepeatATracebackThatIsInTheBlock) {
  WorkerFailure failure = failure_of(0, 0, 100, by_code(1));
  failure.explanation = "why";
  failure.last_lines = {"RuntimeError: boom"};
  failure.error_file = traceback_file();
  EXPECT_TRUE(to_text({"train.py", {failure}, std::nullopt}).starts_with("why\n\n====="));
}

TEST_F(FailureReportTest, ShowsWhyAProgramWasNotStarted) {
  WorkerFailure failure = failure_of(0, 0, 0, {});
  failure.not_started = "cannot run pyton: No such file or directory";
  EXPECT_TRUE(contains(to_text({"pyton", {failure}, std::nullopt}),
                       "  traceback : cannot run pyton: No such file or directory\n"));
}

TEST_F(FailureReportTest, TellsEverythingAsJson) {
  WorkerFailure cause = failure_of(3, 1, 103, by_signal(SIGKILL));
  cause.last_lines = {"broken \xff", "last"};
  classify(cause);
  WorkerFailure other = failure_of(0, 0, 100, by_code(1));
  other.error_file = traceback_file();
  classify(other);
  const Json json = Json::parse(to_json(FailureReport{"train.py", {cause, other}, "/logs/run_1"}));
  EXPECT_EQ(json["entry"], "train.py");
  EXPECT_EQ(json["log_folder"], "/logs/run_1");
  EXPECT_EQ(json["root_cause"], json["failures"][0]);
  ASSERT_EQ(json["failures"].size(), 2U);
  const Json expected_cause{
      {"host", "node-1"},
      {"rank", 3},
      {"local_rank", 1},
      {"pid", 103},
      {"exit_code", nullptr},
      {"signal", 9},
      {"kind", "signal"},
      {"signal_name", "SIGKILL"},
      {"error_file", nullptr},
      {"explanation", cause.explanation},
      {"message", nullptr},
      {"time", "2023-11-14T22:13:22.500Z"},
      {"last_lines", {"broken \xef\xbf\xbd", "last"}},
  };
  EXPECT_EQ(json["failures"][0], expected_cause);
  EXPECT_EQ(json["failures"][1]["exit_code"], 1);
  EXPECT_EQ(json["failures"][1]["error_file"], "/logs/error.json");
  EXPECT_EQ(json["failures"][1]["message"], "RuntimeError: boom");
}

}  // namespace
}  // namespace muster::launch

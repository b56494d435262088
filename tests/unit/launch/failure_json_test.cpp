#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "launch/failure.hpp"
#include "testing/contains.hpp"

namespace muster::launch {
namespace {

using Json = nlohmann::json;
using testing::contains;

WorkerFailure full_failure() {
  WorkerFailure failure;
  failure.host = "node-1";
  failure.rank = 11;
  failure.local_rank = 3;
  failure.pid = 4711;
  failure.end = {std::nullopt, SIGKILL, true};
  failure.time = std::chrono::system_clock::time_point(std::chrono::milliseconds(1'700'000'002'503));
  failure.error_file = parse_error_file(
      "/logs/3/error.json",
      R"({"message": {"message": "RuntimeError: ü", "extraInfo": {"py_callstack": "T\n", "timestamp": "1700000000"}}})");
  failure.last_lines = {"one", "two"};
  failure.not_started = "reason";
  failure.out_of_memory_kill = true;
  failure.kind = FailureKind::host_memory;
  failure.explanation = "rank 11 …";
  return failure;
}

void expect_equal(const WorkerFailure& left, const WorkerFailure& right) {
  EXPECT_EQ(left.host, right.host);
  EXPECT_EQ(left.rank, right.rank);
  EXPECT_EQ(left.local_rank, right.local_rank);
  EXPECT_EQ(left.pid, right.pid);
  EXPECT_EQ(left.end, right.end);
  EXPECT_EQ(left.time, right.time);
  EXPECT_EQ(left.last_lines, right.last_lines);
  EXPECT_EQ(left.not_started, right.not_started);
  EXPECT_EQ(left.out_of_memory_kill, right.out_of_memory_kill);
  EXPECT_EQ(left.kind, right.kind);
  EXPECT_EQ(left.explanation, right.explanation);
  ASSERT_EQ(left.error_file.has_value(), right.error_file.has_value());
  if (!left.error_file) return;
  EXPECT_EQ(left.error_file->path, right.error_file->path);
  EXPECT_EQ(left.error_file->json, right.error_file->json);
  EXPECT_EQ(left.error_file->message, right.error_file->message);
  EXPECT_EQ(left.error_file->traceback, right.error_file->traceback);
  EXPECT_EQ(left.error_file->timestamp, right.error_file->timestamp);
}

TEST(FailureJson, ComesBackAsItWentOut) {
  WorkerFailure bare;
  bare.end.exit_code = 1;
  for (const WorkerFailure& failure : {full_failure(), bare}) {
    const std::string json = to_json(failure);
    EXPECT_EQ(json.find('\n'), std::string::npos);
    const auto back = failure_from_json(json);
    ASSERT_TRUE(back) << back.error().what;
    expect_equal(*back, failure);
  }
}

TEST(FailureJson, CarriesAHugeErrorFileShortened) {
  WorkerFailure failure = full_failure();
  const std::string huge(std::size_t{3} << 20, 'x');
  failure.error_file = parse_error_file(
      "/e", R"({"message": {"message": "RuntimeError: boom", "extraInfo": {"timestamp": "5", "py_callstack": ")" +
                huge + R"("}}})");
  const std::string json = to_json(failure);
  EXPECT_LT(json.size(), std::size_t{1} << 20);
  const auto back = failure_from_json(json);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->error_file->message, "RuntimeError: boom");
  EXPECT_EQ(back->error_file->timestamp, 5);
  EXPECT_TRUE(back->error_file->traceback->ends_with("xxx"));
}

TEST(FailureJson, RefusesWhatIsNoAccountOfAFailure) {
  for (const char* text : {"", "[]", "null", "{", "\xff"}) EXPECT_FALSE(failure_from_json(text)) << text;
  const Json whole = Json::parse(to_json(full_failure()));
  const std::pair<const char*, Json> wrong[] = {
      {"host", 1},         {"rank", "x"},      {"rank", 1e300},           {"rank", std::int64_t{1} << 40},
      {"pid", UINT64_MAX}, {"kind", "other"},  {"kind", nullptr},         {"last_lines", {1, 2}},
      {"signal", "nine"},  {"time_ms", -1},    {"time_ms", INT64_MAX},    {"out_of_memory_kill", 1},
      {"exit_code", true}, {"timed_out", "x"}, {"error_file_content", 3}, {"explanation", nullptr},
  };
  for (const auto& [key, value] : wrong) {
    Json changed = whole;
    changed[key] = value;
    const auto back = failure_from_json(changed.dump());
    ASSERT_FALSE(back) << key << " " << value;
    EXPECT_TRUE(contains(back.error().what, key));
  }
  for (const char* key : {"host", "rank", "local_rank", "pid", "kind", "explanation", "last_lines", "time_ms"}) {
    Json changed = whole;
    changed.erase(key);
    EXPECT_FALSE(failure_from_json(changed.dump())) << key;
  }
}

TEST(FailureJson, TakesMembersItDoesNotKnow) {
  Json more = Json::parse(to_json(full_failure()));
  more["added_later"] = {1, 2, 3};
  EXPECT_TRUE(failure_from_json(more.dump()));
}

}  // namespace
}  // namespace muster::launch

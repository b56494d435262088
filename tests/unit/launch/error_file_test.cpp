#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "system/files.hpp"
#include "launch/failure.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::launch {
namespace {

using Json = nlohmann::json;
using testing::contains;

// What torch's @record writes.
constexpr std::string_view recorded =
    R"({"message": {"message": "RuntimeError: boom", "extraInfo": {"py_callstack": "Traceback:\nRuntimeError: boom\n", )"
    R"("timestamp": "1700000000"}}})";

class ErrorFileTest : public ::testing::Test {
 protected:
  std::optional<ErrorFile> read(std::string_view text) const {
    return read_error_file(scratch_.write("error.json", text));
  }
  Json parent_of(std::string_view text, int exit_code) const {
    const auto written = write_parent_error_file(scratch_.path() / "parent.json", read(text).value(), exit_code);
    EXPECT_TRUE(written);
    return Json::parse(read_file(scratch_.path() / "parent.json").value());
  }
  const testing::ScratchFolder scratch_;
};

TEST_F(ErrorFileTest, TellsMessageTracebackAndTime) {
  const auto file = read(recorded);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->path, scratch_.path() / "error.json");
  EXPECT_EQ(file->json, recorded);
  EXPECT_EQ(file->message, "RuntimeError: boom");
  EXPECT_EQ(file->traceback, "Traceback:\nRuntimeError: boom\n");
  EXPECT_EQ(file->timestamp, 1700000000);
}

TEST_F(ErrorFileTest, TellsAPlainMessageWithItsTime) {
  for (const char* timestamp : {"1700000001", "\"1700000001\""}) {
    const auto file = read(std::string(R"({"message": "it broke", "timestamp": )") + timestamp + "}");
    ASSERT_TRUE(file);
    EXPECT_EQ(file->message, "it broke");
    EXPECT_FALSE(file->traceback);
    EXPECT_EQ(file->timestamp, 1700000001);
  }
}

TEST_F(ErrorFileTest, DoesWithoutWhatIsMissingOrOfAnotherKind) {
  for (const char* text : {R"({"message": {"message": "m"}})", R"({"message": {"message": "m", "extraInfo": 3}})",
                           R"({"message": {"message": "m", "extraInfo": {"py_callstack": [], "timestamp": "soon"}}})",
                           R"({"message": "m", "timestamp": 99999999999999999999})"}) {
    const auto file = read(text);
    ASSERT_TRUE(file) << text;
    EXPECT_EQ(file->message, "m") << text;
    EXPECT_FALSE(file->traceback || file->timestamp) << text;
  }
}

TEST_F(ErrorFileTest, KeepsForeignAndHalfWrittenContentAsTheMessage) {
  for (const char* text : {"not json", "[1, 2]", "{\"other\": 1}", "{\"message\": 7}", "\xff\xfe",
                           "{\"message\": {\"message\": \"RuntimeErr"}) {
    const auto file = read(text);
    ASSERT_TRUE(file) << text;
    EXPECT_EQ(file->message, text);
    EXPECT_EQ(file->json, text);
  }
}

TEST_F(ErrorFileTest, IsAbsentWhenThereIsNothingToRead) {
  EXPECT_FALSE(read_error_file(scratch_.path() / "absent.json"));
  EXPECT_FALSE(read_error_file(scratch_.path()));
  EXPECT_FALSE(read_error_file("/dev/null"));
  EXPECT_FALSE(read_error_file(""));
  EXPECT_FALSE(read(""));
  EXPECT_FALSE(read(" \n"));
  const std::filesystem::path pipe = scratch_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(read_error_file(pipe));
}

TEST_F(ErrorFileTest, IsReadWithinBounds) {
  const auto huge = read(std::string(std::size_t{17} << 20, '['));
  ASSERT_TRUE(huge);
  EXPECT_TRUE(contains(huge->message, "error.json is larger than 16 MiB"));
  const auto long_message = read(R"({"message": ")" + std::string(std::size_t{1} << 20, 'x') + R"("})");
  ASSERT_TRUE(long_message);
  EXPECT_LT(long_message->message.size(), std::size_t{100} * 1024);
  EXPECT_TRUE(read(std::string(std::size_t{1} << 20, '[')));  // deep nesting
}

TEST_F(ErrorFileTest, OfTheParentIsTheChildsWithTheExitCode) {
  Json expected = Json::parse(recorded);
  EXPECT_EQ(parent_of(recorded, 0), expected);
  expected["message"]["errorCode"] = -11;
  EXPECT_EQ(parent_of(recorded, -11), expected);
}

TEST_F(ErrorFileTest, OfTheParentLeavesAPlainMessageAsItIs) {
  constexpr std::string_view plain = R"({"message": "it broke", "timestamp": 1700000001, "more": [1]})";
  EXPECT_EQ(parent_of(plain, 3), Json::parse(plain));
}

TEST_F(ErrorFileTest, OfTheParentIsJsonWhateverTheChildWrote) {
  EXPECT_EQ(parent_of("not json", 3), (Json{{"message", "not json"}}));
  EXPECT_TRUE(parent_of("\xff\xfe", 3)["message"].is_string());
}

TEST_F(ErrorFileTest, OfTheParentLeavesOutWhatIsNestedBeyondReason) {
  constexpr std::size_t depth = 1'000'000;
  const std::string nested = std::string(depth, '[') + std::string(depth, ']');
  const Json parent = parent_of(R"({"message": {"message": "m", "extraInfo": {"more": )" + nested + "}}}", 3);
  EXPECT_EQ(parent["message"]["message"], "m");
  EXPECT_EQ(parent["message"]["errorCode"], 3);
}

TEST_F(ErrorFileTest, OfTheParentReplacesAnEarlierOne) {
  scratch_.write("parent.json", std::string(5000, 'x'));
  EXPECT_EQ(parent_of(recorded, 0), Json::parse(recorded));
}

TEST_F(ErrorFileTest, OfTheParentDoesNotReplaceADevice) {
  const std::filesystem::path pipe = scratch_.path() / "device";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(write_parent_error_file(pipe, read(recorded).value(), 1));  // nobody reads it
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST_F(ErrorFileTest, OfTheParentSaysWhyItCannotBeWritten) {
  const auto written = write_parent_error_file(scratch_.path() / "absent/parent.json", read(recorded).value(), 1);
  ASSERT_FALSE(written);
  EXPECT_TRUE(contains(written.error().what, "absent/parent.json", "No such file"));
}

}  // namespace
}  // namespace muster::launch

#include "service/experiment_data.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "system/files.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::service {
namespace {

class GeneratedData : public ::testing::Test {
 protected:
  void write(const char* name, const std::string& text) const { std::ofstream(scratch_.path() / name) << text; }
  Result<void> join(experiment::Keep keep) const {
    return write_generated_data((scratch_.path() / "prompts.jsonl").string(), scratch_.path() / "answers.jsonl", keep,
                                scratch_.path() / "data.jsonl");
  }
  std::string data() const { return read_file(scratch_.path() / "data.jsonl").value(); }

  testing::ScratchFolder scratch_;
};

TEST_F(GeneratedData, JoinsEveryAnswerWithItsPrompt) {
  write("prompts.jsonl",
        "{\"prompt\": \"1+1=\"}\n\n{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}\n{\"prompt\": "
        "\"x\"}\n");
  write("answers.jsonl",
        "{\"index\": 0, \"text\": \"2\"}\n{\"index\": 0, \"text\": \"3\"}\n{\"index\": 1, \"text\": \"hi\"}\n");
  ASSERT_TRUE(join(experiment::Keep::all));
  EXPECT_EQ(data(),
            "{\"prompt\":\"1+1=\",\"completion\":\"2\"}\n{\"prompt\":\"1+1=\",\"completion\":\"3\"}\n"
            "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"},{\"role\":\"assistant\",\"content\":\"hi\"}]}\n");
}

TEST_F(GeneratedData, KeepsOnlyRightAnswersWhereThatIsWished) {
  write("prompts.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n{\"prompt\": \"2+2=\", \"answer\": \"4\"}\n");
  write("answers.jsonl",
        "{\"index\": 0, \"text\": \"3\"}\n{\"index\": 0, \"text\": \" 2\"}\n{\"index\": 1, \"text\": \"5\"}\n");
  ASSERT_TRUE(join(experiment::Keep::right));
  EXPECT_EQ(data(), "{\"prompt\":\"1+1=\",\"completion\":\" 2\"}\n");
  write("answers.jsonl", "{\"index\": 0, \"text\": \"3\"}\n");
  EXPECT_FALSE(join(experiment::Keep::right));
}

TEST_F(GeneratedData, RefusesToChooseWhereNothingSaysWhatIsRight) {
  write("prompts.jsonl", "{\"prompt\": \"1+1=\"}\n");
  write("answers.jsonl", "{\"index\": 0, \"text\": \"3\"}\n");
  const auto joined = join(experiment::Keep::right);
  ASSERT_FALSE(joined);
  EXPECT_NE(joined.error().what.find("row 1"), std::string::npos);
}

}  // namespace
}  // namespace muster::service

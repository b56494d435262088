#include "job/generate/conversation.hpp"

#include <gtest/gtest.h>

#include "json/fields.hpp"
#include "testing/pipe.hpp"

namespace muster::job {
namespace {

class ConversationTest : public ::testing::Test {
 protected:
  Conversation conversation(std::optional<std::string> system = {}) {
    return {{std::move(system), pipe_.reading(), false},
            LineOutput::open("/dev/null").value(),
            "hello",
            [this](const std::string& text) { notes_.push_back(text); }};
  }
  void type(std::string_view text) { pipe_.write(text); }
  // The request's row; "not yet"; "end".
  static std::string next(Conversation& talk) {
    const auto next = talk.next_request(0);
    if (!next) return next.error().what;
    if (const auto* request = std::get_if<wire::Request>(&*next)) return request->row;
    return std::holds_alternative<wire::NotYet>(*next) ? "not yet" : "end";
  }
  static Result<void> reply(Conversation& talk, std::int64_t turn, std::string text, std::string finish = "stop") {
    wire::GenerationResult result;
    result.samples.push_back({std::move(text), {1}, std::move(finish), {}});
    return talk.on_event({std::chrono::system_clock::now(), 0, wire::TaskResult{turn, print_fields(result)}});
  }

  testing::Pipe pipe_;
  std::vector<std::string> notes_;
};

TEST_F(ConversationTest, EveryTurnCarriesAllMessagesSoFar) {
  Conversation talk = conversation("be brief");
  EXPECT_EQ(next(talk), "not yet");
  type("hi\nhow are you?\n");
  EXPECT_EQ(next(talk), R"({"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]})");
  EXPECT_EQ(next(talk), "not yet");  // while the answer is written
  EXPECT_EQ(talk.input(), std::nullopt);
  ASSERT_TRUE(reply(talk, 0, "hello"));
  ASSERT_NE(talk.input(), std::nullopt);
  EXPECT_NE(talk.input(), pipe_.reading());  // the next line is at hand already
  EXPECT_EQ(next(talk), R"({"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"},)"
                        R"({"role":"assistant","content":"hello"},{"role":"user","content":"how are you?"}]})");
}

TEST_F(ConversationTest, ResetBeginsAnewAndKeepsTheSystemText) {
  Conversation talk = conversation("be brief");
  type("hi\n");
  next(talk);
  ASSERT_TRUE(reply(talk, 0, "hello"));
  type("/reset\n\nagain\n");
  EXPECT_EQ(next(talk), R"({"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"again"}]})");
}

TEST_F(ConversationTest, EndsByItsWordAndByTheEndOfInput) {
  Conversation by_word = conversation();
  type("/exit\nnever sent\n");
  EXPECT_EQ(next(by_word), "end");
  EXPECT_EQ(next(by_word), "end");
  Conversation by_end = conversation();
  pipe_.close();
  EXPECT_EQ(next(by_end), "end");
}

TEST_F(ConversationTest, AnAnswerThatWasCutIsToldWithHowToGetMore) {
  Conversation talk = conversation();
  type("hi\n");
  next(talk);
  ASSERT_TRUE(reply(talk, 0, "hel", "length"));
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("--max-new-tokens"), std::string::npos);
}

}  // namespace
}  // namespace muster::job

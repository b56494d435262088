// Environments that are programs: what they do wrong is named, tried again as told, and is never a silent 0.
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "environment/program_environment.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::environment {
namespace {

// A counter: an answer is added to the row's number, and the episode ends at 10 or more, worth what it came to.
// `fault(row, session, asked)` may do something else; True: it has answered.
constexpr std::string_view counter = R"(
import json, os, sys, time
starts = sys.argv[1]
with open(starts, "a") as file: file.write("x")
start = os.path.getsize(starts)
def say(**answer): print(json.dumps(answer), flush=True)
sessions = {}
def fault(asked, state): return False
exec(open(sys.argv[2]).read())
for line in sys.stdin:
    asked = json.loads(line)
    session = asked["session"]
    if "close" in asked: sessions.pop(session); continue
    if "reset" in asked: sessions[session] = dict(asked["reset"], seed=asked["seed"])
    state = sessions[session]
    if fault(asked, state): continue
    if "reset" in asked:
        if "number" not in state: say(id=asked["id"], refused="the row has no number", remedy="give it one")
        else: say(id=asked["id"], messages=[{"role": "user", "content": f"{state['number']} {state['seed']}"}])
    elif "end" in asked: say(id=asked["id"], reward=-state["number"])
    else:
        state["number"] += int(asked["answer"])
        done = state["number"] >= 10
        say(id=asked["id"], messages=[] if done else [{"role": "user", "content": str(state["number"])}],
            reward=float(state["number"]) if done else 0, done=done, info={"at": state["number"]})
)";

class ProgramEpisodes : public ::testing::Test {
 protected:
  std::unique_ptr<Environment> environment(std::string_view fault, double seconds = 60, std::int64_t restarts = 3) {
    spec::EnvironmentOptions options;
    options.kind = spec::EnvironmentKind::program;
    options.program = {"python3", "-S", folder_.write("counter.py", std::string(counter)).string(),
                       (folder_.path() / "starts").string(), folder_.write("fault.py", std::string(fault)).string()};
    options.program_seconds = seconds;
    options.program_restarts = restarts;
    auto made = make_program_environment(options, [this](const std::string& text) {
      const std::scoped_lock lock(mutex_);
      told_ += text + "\n";
    });
    EXPECT_TRUE(made) << to_string(made.error());
    return std::move(*made);
  }
  static std::unique_ptr<Session> begin(const Environment& environment, int number = 1) {
    auto session = environment.reset("{\"number\": " + std::to_string(number) + "}", 7);
    EXPECT_TRUE(session) << to_string(session.error());
    return session ? std::move(*session) : nullptr;
  }
  bool was_told(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    return told_.find(text) != std::string::npos;
  }
  // Plays 1 + 4 + 5.
  void play(std::string_view fault, double seconds = 60) {
    const auto counts = environment(fault, seconds);
    const auto session = begin(*counts);
    ASSERT_TRUE(session);
    const Step first = session->step("4"), last = session->step("5");
    EXPECT_FALSE(first.done);
    EXPECT_EQ(first.messages, (std::vector<Message>{{"user", "5"}}));
    EXPECT_TRUE(last.done) << last.info.dump();
    EXPECT_EQ(last.reward, std::optional(10.0)) << last.info.dump();
  }
  // What is unknown, and why.
  void expect_unknown(std::string_view fault, const std::string& why, double seconds = 60) {
    const auto counts = environment(fault, seconds, 1);
    const auto session = begin(*counts);
    ASSERT_TRUE(session);
    session->step("4");
    const Step step = session->step("5");
    EXPECT_TRUE(step.done);
    EXPECT_EQ(step.reward, std::nullopt);
    EXPECT_NE(step.info.dump().find(why), std::string::npos) << step.info.dump();
    EXPECT_TRUE(was_told("what an episode is worth is unknown")) << told_;
  }

  testing::ScratchFolder folder_;
  std::mutex mutex_;
  std::string told_;
};

TEST_F(ProgramEpisodes, GetRowSeedAndAnswersAndGiveMessagesAndRewards) {
  const auto counts = environment("");
  const auto session = begin(*counts);
  ASSERT_TRUE(session);
  EXPECT_EQ(session->messages(), (std::vector<Message>{{"user", "1 7"}}));
  EXPECT_EQ(session->step("2").reward, std::optional(0.0));
  EXPECT_EQ(session->end_early(), std::optional(-3.0));
  EXPECT_EQ(told_, "");
}

TEST_F(ProgramEpisodes, AreRefusedWhereTheProgramRefusesTheirRow) {
  const auto counts = environment("");
  const auto session = counts->reset("{}", 1);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().kind, Error::Kind::bad_input);
  EXPECT_EQ(session.error().what, "the row has no number");
  EXPECT_EQ(session.error().remedy, "give it one");
}

TEST_F(ProgramEpisodes, ArePlayedAgainAfterADeath) {
  play("def fault(asked, state):\n  if start == 1 and asked.get('answer') == '5': os._exit(3)");
  EXPECT_TRUE(was_told("ended (exit code 3); it is started again")) << told_;
}

TEST_F(ProgramEpisodes, ArePlayedAgainAfterLinesThatAreNoAnswers) {
  for (const std::string line : {"print('nonsense', flush=True)", "say(id=999, reward=0)", "say(reward=0)",
                                 "print('{\"id\": NaN}', flush=True)"})
    play("def fault(asked, state):\n  if start == 1 and asked.get('answer') == '5': " + line + "; return True");
}

TEST_F(ProgramEpisodes, ArePlayedAgainAfterAFailureThatTheProgramTells) {
  play(
      "n = 0\ndef fault(asked, state):\n  global n\n  if asked.get('answer') == '5' and n == 0: n = 1; "
      "say(id=asked['id'], failed='busy'); return True");
}

TEST_F(ProgramEpisodes, ArePlayedAgainAfterAHangingProgram) {
  play("def fault(asked, state):\n  if start == 1 and asked.get('answer') == '5': time.sleep(600)", 3);
  EXPECT_TRUE(was_told("gave no answer within 3 s")) << told_;
}

TEST_F(ProgramEpisodes, AreUnknownWhereTheProgramKeepsFailing) {
  expect_unknown("def fault(asked, state):\n  if asked.get('answer') == '5': os._exit(3)", "exit code 3");
}

TEST_F(ProgramEpisodes, AreUnknownWhereTheProgramGivesNoNumber) {
  expect_unknown(
      "def fault(asked, state):\n  if asked.get('answer') == '5': say(id=asked['id'], reward='much', done=True); "
      "return True",
      "\\\"reward\\\" is \\\"much\\\"");
}

TEST_F(ProgramEpisodes, AreUnknownWhereTheProgramSaysSo) {
  const auto counts = environment(
      "def fault(asked, state):\n  if asked.get('answer') == '5': say(id=asked['id'], reward=None, done=True); return "
      "True");
  const Step step = begin(*counts)->step("5");
  EXPECT_TRUE(step.done);
  EXPECT_EQ(step.reward, std::nullopt);
  EXPECT_EQ(told_, "") << "that is an answer";
}

TEST_F(ProgramEpisodes, AreUnknownWhereTheyDoNotComeOutTheSameAgain) {
  expect_unknown(
      "def fault(asked, state):\n  if asked.get('answer') == '5': os._exit(3)\n  if asked.get('answer') == '4': "
      "state['number'] += start",
      "went differently");
}

TEST_F(ProgramEpisodes, AreNotBegunByAProgramThatCannotAnswer) {
  const auto counts = environment("sys.exit(4)", 60, 1);
  const auto session = counts->reset(R"({"number": 1})", 7);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().kind, Error::Kind::failed);
  EXPECT_NE(session.error().what.find("exit code 4"), std::string::npos) << session.error().what;
  EXPECT_NE(session.error().what.find("started 2 times"), std::string::npos) << session.error().what;
}

TEST_F(ProgramEpisodes, AreSteppedInManyThreadsWhileTheProgramDies) {
  const auto counts = environment(
      "n = 0\ndef fault(asked, state):\n  global n\n  n += 1\n  if start < 4 and n == 30: os._exit(3)", 60, 20);
  std::vector<std::optional<double>> worth(40);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < worth.size(); ++i)
      threads.emplace_back([&, i] {
        const auto session = begin(*counts, static_cast<int>(i % 5));
        session->step("4");
        worth[i] = session->step("6").reward;
      });
  }
  for (std::size_t i = 0; i < worth.size(); ++i)
    EXPECT_EQ(worth[i], std::optional(10.0 + static_cast<double>(i % 5))) << i;
}

}  // namespace
}  // namespace muster::environment

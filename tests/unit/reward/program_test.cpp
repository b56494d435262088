// What programs that judge can do wrong: named, tried again as told, and never a silent 0.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "reward/judge.hpp"
#include "system/files.hpp"
#include "system/process.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::reward {
namespace {

using Rewards = std::vector<std::optional<double>>;

// Reads lines, and answers each by what `judge` makes of it.
constexpr std::string_view loop = R"(
import json, os, signal, sys, time
state = sys.argv[1]
def starts():
    with open(state, "a") as file: file.write("x")
    return os.path.getsize(state)
start = starts()
def say(text): print(text, flush=True)
def answer(row, reward): say(json.dumps({"id": row["id"], "reward": reward}))
)";

class RewardProgram : public ::testing::Test {
 protected:
  // body: Python that has `start` (1, 2, …), `say`, `answer` and sys.stdin.
  spec::RewardOptions options(std::string_view body) {
    const auto script = folder_.write("judge.py", std::string(loop) + std::string(body));
    return {.functions = {spec::RewardFunction::program},
            .program = {"python3", "-S", script.string(), (folder_.path() / "starts").string()},
            .program_seconds = 60};
  }

  Result<Rewards> judge(const spec::RewardOptions& options, std::size_t count) {
    auto judge = make_judge(options, [this](const std::string& text) { told_.push_back(text); });
    if (!judge) return judge.error();
    return judge_by(*judge, count);
  }
  static Result<Rewards> judge_by(Judge& judge, std::size_t count, const std::string& completion = "word") {
    const Question question{"p\n\"q\"", "right", R"({"level": 3})"};
    const std::vector<Answered> answers(count, Answered{&question, completion, 5, true, 9});
    const auto judged = judge.judge(answers);
    if (!judged) return judged.error();
    Rewards rewards;
    for (const Judged& one : *judged) rewards.push_back(one.reward);
    return rewards;
  }

  std::string failure(const spec::RewardOptions& options, std::size_t count) {
    const auto judged = judge(options, count);
    EXPECT_FALSE(judged);
    if (judged) return "";
    EXPECT_EQ(judged.error().kind, Error::Kind::failed);
    EXPECT_FALSE(judged.error().remedy.empty());
    return judged.error().what;
  }
  std::size_t starts() const {
    const auto text = read_file(folder_.path() / "starts");
    return text ? text->size() : 0;
  }

  testing::ScratchFolder folder_;
  std::vector<std::string> told_;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(RewardProgram, SeesEverythingAboutAnAnswer) {
  const auto rewards = judge(options(R"(
for line in sys.stdin:
    row = json.loads(line)
    right = {"prompt": 'p\n"q"', "completion": "word", "answer": "right", "tokens": 5, "ids": [], "finish": "stop", "row": {"level": 3}}
    answer(row, 2.5 if all(row[key] == value for key, value in right.items()) else -1)
)"), 3);
  ASSERT_TRUE(rewards) << rewards.error().what;
  EXPECT_EQ(*rewards, (Rewards{2.5, 2.5, 2.5}));
  EXPECT_EQ(starts(), 1u);
}

TEST_F(RewardProgram, MayAnswerABatchInAnyOrderAndNotKnow) {
  auto asked = options(R"(
rows = []
for line in sys.stdin:
    rows.append(json.loads(line))
    if rows[-1]["left"] == 0:
        for row in reversed(rows): answer(row, None if row["id"] == 3 else row["id"])
        rows = []
)");
  asked.program_batch = 4;
  const auto rewards = judge(asked, 10);
  ASSERT_TRUE(rewards) << rewards.error().what;
  EXPECT_EQ(*rewards, (Rewards{0, 1, 2, std::nullopt, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(starts(), 1u);
}

TEST_F(RewardProgram, IsNotWaitedForOnceItsJudgeIsToldToStop) {
  auto asked = options("for line in sys.stdin: open(state + '-reads', 'w').close()");
  asked.program_seconds = 1e6;
  std::stop_source stop;
  auto judge = make_judge(asked, {}, nullptr, stop.get_token());
  ASSERT_TRUE(judge);
  const std::jthread stopper([&] {
    while (!std::filesystem::exists(folder_.path() / "starts-reads")) std::this_thread::yield();
    stop.request_stop();
  });
  const auto judged = judge_by(*judge, 2);
  ASSERT_FALSE(judged);
  EXPECT_HAS(judged.error().what, "told to stop");
  EXPECT_EQ(starts(), 1u);
}

TEST_F(RewardProgram, CanBeALineForTheShell) {
  auto asked = options("for line in sys.stdin: answer(json.loads(line), 1)");
  asked.program = {"cat | python3 " + asked.program[2] + " " + asked.program[3]};
  const auto rewards = judge(asked, 2);
  ASSERT_TRUE(rewards) << rewards.error().what;
  EXPECT_EQ(*rewards, (Rewards{1, 1}));
}

TEST_F(RewardProgram, IsStartedAgainForTheAnswersThatItDidNotJudge) {
  const auto rewards = judge(options(R"(
for line in sys.stdin:
    row = json.loads(line)
    answer(row, start)
    if start == 1 and row["id"] == 1: os.kill(os.getpid(), signal.SIGKILL)
)"), 4);
  ASSERT_TRUE(rewards) << rewards.error().what;
  EXPECT_EQ(*rewards, (Rewards{1, 1, 2, 2}));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_HAS(told_[0], "ended after 2 of 4 answers (signal 9");
  EXPECT_HAS(told_[0], "started again (1 of 3)");
}

TEST_F(RewardProgram, ThatAlwaysDiesEndsTheRunByName) {
  auto asked = options("sys.exit(7)");
  asked.program_restarts = 2;
  const std::string what = failure(asked, 2);
  EXPECT_HAS(what, "reward function program: python3 -S");
  EXPECT_HAS(what, "ended after 0 of 2 answers (exit code 7); it was started 3 times");
  EXPECT_EQ(starts(), 3u);
}

TEST_F(RewardProgram, ThatDiedBetweenTwoBatchesIsStartedAgain) {
  auto judge = make_judge(options(R"(
for line in sys.stdin:
    answer(json.loads(line), start)
    break
)"), [this](const std::string& text) { told_.push_back(text); });
  ASSERT_TRUE(judge);
  EXPECT_EQ(*judge_by(*judge, 1), (Rewards{1}));
  EXPECT_EQ(*judge_by(*judge, 1), (Rewards{2}));
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(RewardProgram, ThatHangsIsKilledAtItsLimit) {
  auto asked = options(R"(
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    answer(json.loads(line), 1)
    time.sleep(1000)
)");
  asked.program_seconds = 2;
  asked.program_restarts = 0;
  EXPECT_HAS(failure(asked, 3), "within 2 s; it was started once");
}

TEST_F(RewardProgram, ThatWaitsForTheEndOfItsInputIsToldNotTo) {
  auto asked = options("rows = sys.stdin.readlines()");
  asked.program_seconds = 1;
  asked.program_restarts = 0;
  const auto judged = judge(asked, 1);
  ASSERT_FALSE(judged);
  EXPECT_HAS(judged.error().what, "gave 0 of 1 answers within 1 s");
  EXPECT_HAS(judged.error().remedy, "flush=True");
}

TEST_F(RewardProgram, IsRefusedWhatIsNoReward) {
  struct Case {
    std::string_view said, told;
  };
  for (const Case& one : {Case{"say('{\"id\": 0, \"reward\": NaN}')", "not a number"},
                          Case{"say('{\"id\": 0, \"reward\": 1e999}')", "not a"},
                          Case{"say('{\"id\": 0, \"reward\": \"1\"}')", "gave a reward that is \"1\""},
                          Case{"say('{\"id\": 0, \"reward\": true}')", "gave a reward that is true"},
                          Case{"say('{\"id\": 0}')", "left out \"reward\""},
                          Case{"say('{\"reward\": 1}')", "left out \"id\""},
                          Case{"say('{\"id\": 99, \"reward\": 1}')", "the id 99, which it was not asked about"},
                          Case{"say('{\"id\": \"0\", \"reward\": 1}')", "an id that is \"0\""},
                          Case{"answer({'id': 0}, 1); answer({'id': 0}, 1)", "a second time"},
                          Case{"say('loading the model')", "not a JSON object: loading the model"},
                          Case{"say('\\x1b[31m[1]')", "\\x1b[31m[1]"},
                          Case{"sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()", "not a JSON object: \\xff"}}) {
    auto asked = options(one.said);
    asked.program[2] = folder_.write("judge.py", std::string(loop) + "sys.stdin.readline()\n" + std::string(one.said) +
                                                     "\ntime.sleep(1000)\n").string();
    asked.program_restarts = 1;
    EXPECT_HAS(failure(asked, 2), one.told);
  }
  EXPECT_EQ(starts(), 2u * 12);
}

TEST_F(RewardProgram, ThatAnswersTooFewIsToldHowMany) {
  auto asked = options("row = json.loads(sys.stdin.readline())\nanswer(row, 1)\n");
  asked.program_restarts = 0;
  EXPECT_HAS(failure(asked, 3), "ended after 1 of 3 answers (exit code 0)");
}

TEST_F(RewardProgram, ThatFloodsItsOutputIsStopped) {
  auto asked = options("while True: sys.stdout.write('x' * 65536)");
  asked.program_restarts = 0;
  EXPECT_HAS(failure(asked, 1), "more than 1 MiB without a line's end");
  asked = options("while True: say('{\"id\": 5, \"reward\": 1}')");
  asked.program_restarts = 0;
  EXPECT_HAS(failure(asked, 1), "id 5");
}

// Both pipes are full at once: whoever writes without reading waits for ever.
TEST_F(RewardProgram, MayTalkWhileItIsBeingTalkedTo) {
  const auto asked = options(R"(
for line in sys.stdin:
    row = json.loads(line)
    say(json.dumps({"id": row["id"], "reward": 1, "why": "y" * 300000}))
)");
  auto judge = make_judge(asked);
  ASSERT_TRUE(judge);
  const auto rewards = judge_by(*judge, 20, std::string(300'000, 'x'));
  ASSERT_TRUE(rewards) << rewards.error().what;
  EXPECT_EQ(*rewards, Rewards(20, 1));
}

TEST_F(RewardProgram, ThatClosesItsInputIsNotWaitedFor) {
  auto asked = options(R"(
row = json.loads(sys.stdin.readline())
answer(row, 1)
os.close(0)
time.sleep(1000)
)");
  asked.program_restarts = 0;
  asked.program_seconds = 1000;
  auto judge = make_judge(asked);
  ASSERT_TRUE(judge);
  const auto rewards = judge_by(*judge, 20, std::string(300'000, 'x'));
  ASSERT_FALSE(rewards);
  EXPECT_HAS(rewards.error().what, "closed its standard input after 1 of 20 answers");
}

TEST_F(RewardProgram, ThatClosesItsOutputIsNotWaitedFor) {
  auto asked = options("sys.stdin.readline()\nos.close(1)\ntime.sleep(1000)");
  asked.program_restarts = 0;
  asked.program_seconds = 1000;
  EXPECT_HAS(failure(asked, 1), "closed its standard output after 0 of 1 answers");
}

TEST_F(RewardProgram, ThatIsNotThereIsRefusedAtOnce) {
  auto asked = options("");
  asked.program = {"/nonexistent/judge", "x"};
  const auto judged = judge(asked, 1);
  ASSERT_FALSE(judged);
  EXPECT_HAS(judged.error().what, "cannot run /nonexistent/judge: No such file or directory");
  EXPECT_TRUE(told_.empty());
}

bool is_running(pid_t pid) {
  const auto status = read_process_status(pid);
  return status && !status->ended;
}

// The program and a child of its own, both deaf to SIGTERM and to the end of the input.
TEST_F(RewardProgram, EndsWithItsJudgeWhateverItIgnores) {
  const auto asked = options(R"(
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child == 0:
    os.close(0); os.close(1)
    while True: time.sleep(1000)
for line in sys.stdin: answer(json.loads(line), child)
while True: time.sleep(1000)
)");
  pid_t child = 0;
  {
    auto judge = make_judge(asked);
    ASSERT_TRUE(judge);
    const auto rewards = judge_by(*judge, 1);
    ASSERT_TRUE(rewards) << rewards.error().what;
    child = static_cast<pid_t>(*rewards->at(0));
    EXPECT_TRUE(is_running(child));
  }
  for (int i = 0; i < 3000 && is_running(child); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(is_running(child));
}

}  // namespace
}  // namespace muster::reward

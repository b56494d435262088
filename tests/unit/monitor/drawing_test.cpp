#include "monitor/drawing.hpp"

#include <gtest/gtest.h>

#include "base/cell_text.hpp"
#include "base/text.hpp"
#include "sample_for_tests.hpp"

namespace muster::monitor {
namespace {

// The lines of a screen as one text, without the blanks at their ends.
std::string drawn(const Sample& sample, ScreenSize size, ViewState state = {}, DrawStyle style = {}) {
  std::string text = "\n";
  for (std::string line : draw(sample, settled(std::move(state), sample, size), size, style)) {
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  }
  return text;
}

TEST(Drawing, ShowsEveryGpuEveryJobAndALogOnEightyByTwentyFour) {
  EXPECT_EQ(drawn(busy_machine(), {80, 24}), R"(
muster top  8 GPUs, 4 in use · jobs: 1 running, 1 waiting, 1 ended
 ID                     MEMORY  UTIL  TEMP     POWER USED BY
  0 ░░░░░░░░░░    0.0/40.0 GiB   0 %  30 C  55/400 W job 7 sums
  1 █░░░░░░░░░    5.0/40.0 GiB  14 %  31 C  55/400 W job 7 sums
  2 ███░░░░░░░   10.0/40.0 GiB  28 %  32 C  55/400 W alice pid 4711 python trai…
  3 ████░░░░░░   15.0/40.0 GiB  42 %  33 C  55/400 W bob (pid 99)
  4 █████░░░░░   20.0/40.0 GiB  56 %  34 C  55/400 W unhealthy: row remap failed
  - ██████░░░░   25.0/40.0 GiB  70 %  35 C  55/400 W hidden by CUDA_VISIBLE_DEV…
  6 ████████░░   30.0/40.0 GiB  84 %  36 C  55/400 W free
  7 █████████░   35.0/40.0 GiB  98 %  37 C  55/400 W free
  ID STATE     GPUS DONE              LEFT    TIME JOB
▸ 7  running   0-1  █░░░░░░░  10 %    0:58    1:05 sums  muster train -c run.ya…
  8  ready     (8)                         1:01:40 python compare.py
  3  failed                                 1d 04h false  exit status 1





── log of 7: sums ──────────────────────────────────────────────────────────────
step 119/1200
step 120/1200

q quit  l log  s stop  / filter  g ended  ? help
)");
}

TEST(Drawing, PutsSeveralGpusOnALineWhereThereIsLittleRoom) {
  EXPECT_EQ(drawn(busy_machine(), {40, 10}), R"(
muster top  8 GPUs, 4 in use · jobs: 1 …
0*  0/0   1* 14/12  2* 28/25  3* 42/38
4! 56/50  -  70/62  6  84/75  7  98/88
  ID STATE     DONE  JOB
▸ 7  running    10 % sums  muster train…
  8  ready           python compare.py
  3  failed          false  exit status…


q quit  l log  s stop  / filter  g ende…
)");
}

TEST(Drawing, ShowsNamesStepsLossAndSpeedOnAWideScreen) {
  const std::string text = drawn(busy_machine(), {140, 24});
  EXPECT_NE(text.find("  0 NVIDIA A100-SXM4-40GB  ░░"), std::string::npos) << text;
  EXPECT_NE(text.find("STEP     LOSS TOKENS/S    LEFT    TIME JOB"), std::string::npos) << text;
  EXPECT_NE(text.find("120/1200   0.8312     5210    0:58    1:05 sums"), std::string::npos) << text;
}

TEST(Drawing, SaysThatThereIsNoGpuAndShowsJobs) {
  EXPECT_EQ(drawn(waiting_jobs(3), {50, 9}), R"(
muster top  0 GPUs, 0 in use · jobs: 0 running, 3…
no GPU: no NVIDIA driver

  ID STATE     GPUS DONE  JOB
▸ 1  waiting              work 1
  2  waiting              work 2
  3  waiting              work 3

q quit  l log  s stop  / filter  g ended  ? help
)");
}

TEST(Drawing, SaysThatTheDriverIsSilentAndKeepsWhatItSaidLast) {
  Sample sample = busy_machine();
  sample.gpus_silent = std::chrono::seconds(12);
  const std::string text = drawn(sample, {80, 24});
  EXPECT_NE(text.find("the driver has not answered for 12 s\n  0 ░░░"), std::string::npos) << text;
}

TEST(Drawing, IsAsciiWhereTheTerminalIsNot) {
  Sample sample = busy_machine();
  sample.jobs[0].label = "größe";
  for (const std::string& line : draw(sample, settled({}, sample, {80, 24}), {80, 24}, {false, false}))
    for (const char letter : line) EXPECT_LT(static_cast<unsigned char>(letter), 0x80) << line;
}

TEST(Drawing, FillsTheScreenAndIsNowhereWiderThanIt) {
  Sample sample = busy_machine();
  sample.jobs[0].label = "大きな実験大きな実験大きな実験";
  sample.lines.assign(100, "\033[31mred\033[0m 進捗 ██ 🚀 " + std::string(300, 'x'));
  for (const auto mode : {ViewState::Mode::list, ViewState::Mode::log, ViewState::Mode::help})
    for (std::size_t width = 1; width < 200; width += 3)
      for (std::size_t height = 1; height < 60; height += 5) {
        ViewState state;
        state.mode = mode;
        const ScreenSize size{width, height};
        const auto lines = draw(sample, settled(state, sample, size), size, {});
        ASSERT_EQ(lines.size(), height);
        for (const std::string& line : lines) ASSERT_LE(cell_width(line), width) << line;
      }
}

TEST(Drawing, ObeysNothingThatOthersWrote) {
  Sample sample = busy_machine();
  sample.jobs[0].label = "a\033[2Jb\nc\x9b";
  sample.lines = {"\033]0;title\a\033[1mbold\033[0m"};
  const std::string text = drawn(sample, {80, 24});
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(text.find("ab c"), std::string::npos) << text;
  EXPECT_NE(text.find("\nbold\n"), std::string::npos) << text;
}

TEST(Drawing, PaintsOnlyWhereColourIsWanted) {
  const Sample sample = busy_machine();
  const auto lines = draw(sample, settled({}, sample, {80, 24}), {80, 24}, {true, true});
  EXPECT_TRUE(lines[11].starts_with("\033[7m▸ 7")) << lines[11];  // the selected job, as a whole
  EXPECT_NE(lines[13].find("\033[31mfailed"), std::string::npos) << lines[13];
}

TEST(Drawing, ShowsTheLinesOfTheSelectedJobAlone) {
  Sample sample = busy_machine();
  ViewState state;
  state.selected = "8";  // selected after the sample was taken
  EXPECT_EQ(drawn(sample, {80, 24}, state).find("step 120/1200\n"), std::string::npos);
}

TEST(Drawing, ShowsALogFromItsEndOrFurtherBack) {
  Sample sample = busy_machine();
  sample.lines.clear();
  for (int i = 1; i <= 50; ++i) sample.lines.push_back(fmt::format("line {}", i));
  ViewState state;
  state.mode = ViewState::Mode::log;
  EXPECT_NE(drawn(sample, {40, 6}, state).find("line 48\nline 49\nline 50\nEsc back"), std::string::npos);
  state.back = 10;
  EXPECT_NE(drawn(sample, {40, 6}, state).find("line 38\nline 39\nline 40\nEsc back"), std::string::npos);
}

TEST(PlainText, HoldsEverythingWhateverTheWidth) {
  Sample sample = waiting_jobs(100);
  sample.notes = {"the queue cannot be read: a reason"};
  const auto lines = split(plain_text(sample, {}), '\n');
  EXPECT_EQ(lines[0], "0 GPUs, 0 in use · jobs: 0 running, 100 waiting, 0 ended");
  EXPECT_EQ(lines[1], "no GPU: no NVIDIA driver");
  EXPECT_EQ(lines.size(), 2 + 1 + 1 + 100 + 1 + 1U);
  EXPECT_EQ(lines[lines.size() - 2], sample.notes[0]);
}

}  // namespace
}  // namespace muster::monitor

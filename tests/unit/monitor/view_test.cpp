#include "monitor/view.hpp"

#include <gtest/gtest.h>

#include "sample_for_tests.hpp"

namespace muster::monitor {
namespace {

constexpr ScreenSize usual{80, 24};

ViewState after(const Sample& sample, std::vector<Key> keys, ViewState state = {}, ScreenSize size = usual) {
  state = settled(std::move(state), sample, size);
  for (const Key& key : keys) state = after_key(std::move(state), key, sample, size).state;
  return state;
}

Key kind(KeyKind of) { return {of, ""}; }

TEST(View, SelectsTheFirstJobAndMovesByLinesAndPages) {
  const Sample sample = waiting_jobs(200);
  EXPECT_EQ(after(sample, {}).selected, "1");
  EXPECT_EQ(after(sample, {kind(KeyKind::down), letter("j"), kind(KeyKind::up)}).selected, "2");
  EXPECT_EQ(after(sample, {letter("k")}).selected, "1");
  EXPECT_EQ(after(sample, {kind(KeyKind::end)}).selected, "200");
  EXPECT_EQ(after(sample, {kind(KeyKind::end), kind(KeyKind::down), kind(KeyKind::home)}).selected, "1");
  const std::size_t page = lay_out(sample, usual).jobs;
  EXPECT_EQ(after(sample, {kind(KeyKind::page_down)}).selected, std::to_string(1 + page));
}

TEST(View, KeepsTheSelectedJobInSight) {
  const Sample sample = waiting_jobs(200);
  const std::size_t room = lay_out(sample, usual).jobs;
  ViewState state = settled({}, sample, usual);
  for (int i = 0; i < 150; ++i) {
    state = after_key(std::move(state), kind(i < 120 ? KeyKind::down : KeyKind::up), sample, usual).state;
    ASSERT_LE(state.first, state.position);
    ASSERT_LT(state.position, state.first + room);
  }
  const ViewState smaller = settled(state, sample, {40, 10});
  EXPECT_EQ(smaller.selected, state.selected);
  EXPECT_LT(smaller.position, smaller.first + lay_out(sample, {40, 10}).jobs);
}

TEST(View, FollowsAJobToItsNewPlace) {
  Sample sample = waiting_jobs(5);
  const ViewState state = after(sample, {kind(KeyKind::down)});
  std::swap(sample.jobs[1], sample.jobs[4]);
  EXPECT_EQ(settled(state, sample, usual).selected, "2");
  EXPECT_EQ(settled(state, sample, usual).position, 4U);
}

TEST(View, TakesTheNextJobWhereTheSelectedOneIsGone) {
  Sample sample = waiting_jobs(5);
  const ViewState state = after(sample, {kind(KeyKind::down)});
  sample.jobs.erase(sample.jobs.begin() + 1);
  EXPECT_EQ(settled(state, sample, usual).selected, "3");
  sample.jobs.clear();
  EXPECT_EQ(settled(state, sample, usual).selected, "");
}

TEST(View, StopsAJobOnlyAfterAYes) {
  const Sample sample = waiting_jobs(3);
  const ViewState asked = after(sample, {letter("s")});
  EXPECT_EQ(asked.asks_to_stop, "1");
  EXPECT_EQ(after_key(asked, letter("y"), sample, usual).stop, "1");
  for (const Key& key : {letter("n"), letter("q"), kind(KeyKind::escape), kind(KeyKind::enter), kind(KeyKind::down)}) {
    const KeyOutcome outcome = after_key(asked, key, sample, usual);
    EXPECT_FALSE(outcome.stop);
    EXPECT_FALSE(outcome.quit);
    EXPECT_EQ(outcome.state.asks_to_stop, "");
  }
}

TEST(View, StopsTheJobThatWasAskedForAlsoIfOthersMoveMeanwhile) {
  Sample sample = waiting_jobs(3);
  const ViewState asked = after(sample, {letter("s")});
  sample.jobs.erase(sample.jobs.begin());
  EXPECT_EQ(after_key(settled(asked, sample, usual), letter("y"), sample, usual).stop, "1");
}

TEST(View, AsksNotForWhatHasEnded) {
  Sample sample = waiting_jobs(1);
  sample.jobs[0].phase = JobPhase::settled;
  const ViewState state = after(sample, {letter("s")});
  EXPECT_EQ(state.asks_to_stop, "");
  EXPECT_EQ(state.message, "job 1 has ended");
}

TEST(View, FiltersWhileATextIsTyped) {
  const Sample sample = waiting_jobs(200);
  const ViewState typing =
      after(sample, {letter("/"), letter("K"), letter(" "), letter("1"), letter("5"), letter("q")});
  EXPECT_TRUE(typing.types_filter);
  EXPECT_TRUE(shown_jobs(sample, typing).empty());
  const ViewState typed = after(sample, {kind(KeyKind::backspace), kind(KeyKind::enter)}, typing);
  EXPECT_FALSE(typed.types_filter);
  EXPECT_EQ(shown_jobs(sample, typed).size(), 11U);  // 15, 150 to 159
  EXPECT_EQ(typed.selected, "15");
  EXPECT_EQ(shown_jobs(sample, after(sample, {kind(KeyKind::escape)}, typed)).size(), 200U);
}

TEST(View, TakesWholeCharactersBackFromAFilter) {
  EXPECT_EQ(after(waiting_jobs(1), {letter("/"), letter("a"), letter("ö"), kind(KeyKind::backspace)}).filter, "a");
}

TEST(View, HidesAndShowsWhatHasEnded) {
  const Sample sample = busy_machine();
  const ViewState hidden = after(sample, {letter("g")});
  EXPECT_EQ(shown_jobs(sample, hidden).size(), 2U);
  EXPECT_EQ(shown_jobs(sample, after(sample, {letter("g")}, hidden)).size(), 3U);
}

TEST(View, FollowsALogAndComesBack) {
  Sample sample = busy_machine();
  sample.lines.assign(100, "line");
  const ViewState log = after(sample, {kind(KeyKind::enter)});
  EXPECT_EQ(log.mode, ViewState::Mode::log);
  EXPECT_GT(focus_of(log, sample, usual).lines, 100U);
  EXPECT_EQ(after(sample, {letter("k"), kind(KeyKind::up)}, log).back, 2U);
  EXPECT_EQ(after(sample, {kind(KeyKind::home)}, log).back, 100U - 21U);
  EXPECT_EQ(after(sample, {kind(KeyKind::home), kind(KeyKind::end)}, log).back, 0U);
  EXPECT_EQ(after(sample, {kind(KeyKind::escape)}, log).mode, ViewState::Mode::list);
  EXPECT_FALSE(after_key(log, letter("q"), sample, usual).quit);
}

TEST(View, QuitsSuspendsAndHelps) {
  const Sample sample = busy_machine();
  EXPECT_TRUE(after_key({}, letter("q"), sample, usual).quit);
  EXPECT_TRUE(after_key({}, kind(KeyKind::interrupt), sample, usual).interrupted);
  EXPECT_TRUE(after_key({}, kind(KeyKind::suspend), sample, usual).suspend);
  const ViewState help = after(sample, {letter("?")});
  EXPECT_EQ(help.mode, ViewState::Mode::help);
  EXPECT_EQ(after(sample, {letter("x")}, help).mode, ViewState::Mode::list);
}

TEST(Keys, AreReadInWholeAndInPieces) {
  KeyReader reader;
  EXPECT_EQ(reader.feed("q\x1b[A\x1bOB\r"),
            (std::vector<Key>{letter("q"), kind(KeyKind::up), kind(KeyKind::down), kind(KeyKind::enter)}));
  EXPECT_TRUE(reader.feed("\x1b").empty());
  EXPECT_TRUE(reader.feed("[").empty());
  EXPECT_EQ(reader.feed("6~"), std::vector{kind(KeyKind::page_down)});
  EXPECT_TRUE(reader.feed("\xc3").empty());
  EXPECT_EQ(reader.feed("\xb6"), std::vector{letter("ö")});
  EXPECT_FALSE(reader.is_waiting());
}

TEST(Keys, AnEscapeAloneIsKnownByThePauseAfterIt) {
  KeyReader reader;
  EXPECT_TRUE(reader.feed("\x1b").empty());
  EXPECT_TRUE(reader.is_waiting());
  EXPECT_EQ(reader.rest(), std::vector{kind(KeyKind::escape)});
  EXPECT_FALSE(reader.is_waiting());
  EXPECT_EQ(reader.feed("\x1bq"), (std::vector<Key>{kind(KeyKind::escape), letter("q")}));
}

TEST(Keys, WhatIsNoKeyIsLeftOut) {
  KeyReader reader;
  EXPECT_EQ(reader.feed("\x1b[200~a\x1b[1;5C\xff"
                        "b\x01"),
            (std::vector<Key>{letter("a"), letter("b")}));
}

}  // namespace
}  // namespace muster::monitor

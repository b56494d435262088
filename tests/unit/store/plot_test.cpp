#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/axis.hpp"
#include "base/table.hpp"
#include "base/text.hpp"
#include "store/loss_plot.hpp"
#include "store/terminal_plot.hpp"
#include "testing/contains.hpp"

namespace muster::store {
namespace {

using testing::contains;

Curve falling(std::size_t count) {
  Curve curve;
  for (std::size_t i = 1; i <= count; ++i) curve.push_back({static_cast<double>(i), 1 + 1 / static_cast<double>(i)});
  return curve;
}

MetricsTable table_of(const Curve& loss) {
  MetricsTable table;
  table.columns = {{"loss", {}}, {"eval_loss", {}}};
  for (const CurvePoint& point : loss) {
    table.steps.push_back(static_cast<std::int64_t>(point.step));
    table.columns[0].cells.emplace_back(point.value);
    table.columns[1].cells.emplace_back();
  }
  return table;
}

TEST(Axis, HasRoundTicksThatCoverItsValues) {
  for (const auto& [low, high] : {std::pair{0.0, 1.0}, {0.013, 4.72}, {-3.0, 1e6}, {2.0, 2.0}, {1e-9, 2e-9}}) {
    const Axis axis = make_axis(low, high, 6, true);
    EXPECT_LE(axis.low, low);
    EXPECT_GE(axis.high, high);
    EXPECT_LT(axis.low, axis.high);
    ASSERT_GE(axis.ticks.size(), 2u);
    EXPECT_LE(axis.ticks.size(), 9u);
    for (std::size_t i = 1; i < axis.ticks.size(); ++i)
      EXPECT_NE(axis.label(axis.ticks[i - 1]), axis.label(axis.ticks[i]));
  }
  EXPECT_EQ(make_axis(0.013, 4.72, 6, true).label(2), "2");
  EXPECT_EQ(make_count_axis(1, 3, 8).ticks, (std::vector<double>{1, 2, 3}));
}

TEST(LossCurve, KeepsItsExtremesWhenItIsThinned) {
  Curve curve = falling(10000);
  curve[5000].value = 9;
  const Curve thin = thinned(curve, 100);
  EXPECT_LE(thin.size(), 200u);
  EXPECT_EQ(std::ranges::max(thin, {}, &CurvePoint::value).value, 9);
  EXPECT_TRUE(std::ranges::is_sorted(thin, {}, &CurvePoint::step));
}

TEST(LossCurve, IsSmoothedWithoutBeingDrawnToZeroOrBehind) {
  for (const CurvePoint& point : smoothed(Curve(100, {1, 4}))) EXPECT_NEAR(point.value, 4, 1e-12);
  Curve line;
  for (int i = 0; i < 600; ++i) line.push_back({static_cast<double>(i), static_cast<double>(i)});
  const Curve smooth = smoothed(line);
  EXPECT_NEAR(smooth[300].value, 300, 1e-6);
  Curve noise;
  for (int i = 0; i < 600; ++i) noise.push_back({static_cast<double>(i), i % 2 == 0 ? 0.0 : 2.0});
  EXPECT_NEAR(smoothed(noise)[300].value, 1, 0.1);
}

TEST(LossCurve, LeavesOutWhatCannotBeDrawn) {
  MetricsTable table = table_of(falling(3));
  table.columns[0].cells[1] = std::nan("");
  EXPECT_EQ(curve_of(table, "loss").size(), 2u);
  EXPECT_TRUE(curve_of(table, "eval_loss").empty());
}

TEST(LossPlot, IsSmallForALongRunAndHasItsParts) {
  MetricsTable table = table_of(falling(200000));
  table.columns[1].cells[99999] = 1.5;
  const std::string svg = loss_svg("a & b <c>", table);
  EXPECT_LT(svg.size(), 60000u);
  EXPECT_TRUE(contains(svg, "a &amp; b &lt;c&gt;", "class=\"loss\"", "class=\"smooth\"", "step 100000: 1.5", ">step<",
                       ">loss<", ">evaluation<", "prefers-color-scheme:dark"));
}

TEST(LossPlot, SaysThatThereIsNothing) {
  EXPECT_TRUE(contains(loss_svg("run", MetricsTable{}), "no loss was recorded", "</svg>"));
}

TEST(TerminalPlot, FitsTheWidthThatIsThere) {
  for (const std::size_t width : {30u, 57u, 80u, 200u})
    for (const bool unicode : {false, true}) {
      const auto lines = split(text_plot(falling(500), {width, 10, unicode, false}), '\n');
      ASSERT_EQ(lines.size(), 13u);  // the field, its axis, the steps, the end
      for (const std::string& line : lines) {
        EXPECT_LE(display_width(line), width);
        EXPECT_TRUE(unicode || std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
      }
    }
}

TEST(TerminalPlot, DrawsALineThatFalls) {
  EXPECT_EQ(text_plot({{1, 4}, {2, 3}, {3, 2}, {4, 1}}, {30, 4, false, false}),
            "4 +''....\n"
            "  |      ''''...\n"
            "2 +             '''...\n"
            "  |                   ''''...\n"
            "  ++-------+--------+-------+\n"
            "   1       2        3       4\n");
}

TEST(TerminalPlot, OfTwoCurvesSaysWhichIsWhich) {
  const std::string text =
      text_plot_of_two({"one", {{1, 1}, {9, 1}}}, {"two", {{1, 1}, {9, 9}}}, {40, 6, false, false});
  EXPECT_TRUE(contains(text, "A one, B two, * both", "*", "AAA", "B"));
}

TEST(TerminalPlot, IsNothingForNothing) { EXPECT_EQ(text_plot({}, {}), ""); }

TEST(TerminalPlot, DrawsARunOfOneStep) { EXPECT_NE(text_plot({{7, 0.5}}, {40, 6, false, false}), ""); }

}  // namespace
}  // namespace muster::store

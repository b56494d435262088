#include "store/terminal_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "base/axis.hpp"
#include "base/table.hpp"

namespace muster::store {
namespace {

// A field of dots, each cell of the text being across × down of them.
class DotField {
 public:
  DotField(std::size_t columns, std::size_t rows, std::size_t across, std::size_t down)
      : width_(columns * across), height_(rows * down), across_(across), down_(down), dots_(width_ * height_) {}

  // Shares from 0 to 1, from the left and from the bottom.
  void draw(double x, double y) {
    const auto at = place(x, y);
    if (last_) draw_line(*last_, at);
    set(at);
    last_ = at;
  }
  // Bit i: the dot at column i % across and row i / across of the cell, from its upper left.
  unsigned cell(std::size_t column, std::size_t row) const {
    unsigned bits = 0;
    for (std::size_t y = 0; y < down_; ++y)
      for (std::size_t x = 0; x < across_; ++x)
        if (dots_[(row * down_ + y) * width_ + column * across_ + x]) bits |= 1U << (y * across_ + x);
    return bits;
  }

 private:
  struct Dot {
    std::size_t x = 0, y = 0;
  };
  Dot place(double x, double y) const {
    const auto scaled = [](double share, std::size_t size) {
      const double last = static_cast<double>(size - 1);
      return static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * last));
    };
    return {scaled(x, width_), height_ - 1 - scaled(y, height_)};
  }
  void set(Dot dot) { dots_[dot.y * width_ + dot.x] = true; }
  void draw_line(Dot from, Dot to) {
    const auto whole = [](std::size_t a) { return static_cast<double>(a); };
    const std::size_t steps =
        std::max(to.x > from.x ? to.x - from.x : from.x - to.x, to.y > from.y ? to.y - from.y : from.y - to.y);
    for (std::size_t i = 1; i < steps; ++i) {
      const double share = whole(i) / whole(steps);
      set({static_cast<std::size_t>(std::lround(whole(from.x) + share * (whole(to.x) - whole(from.x)))),
           static_cast<std::size_t>(std::lround(whole(from.y) + share * (whole(to.y) - whole(from.y))))});
    }
  }

  std::size_t width_, height_, across_, down_;
  std::vector<bool> dots_;
  std::optional<Dot> last_;
};

std::string utf8(unsigned code) {
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// Eight dots, two across, as one character: Unicode counts them 1 2 3 7 down on the left, 4 5 6 8 on the right.
std::string braille(unsigned bits) {
  constexpr unsigned place[] = {0, 3, 1, 4, 2, 5, 6, 7};
  if (bits == 0) return " ";
  unsigned pattern = 0;
  for (unsigned i = 0; i < 8; ++i)
    if ((bits >> i & 1) != 0) pattern |= 1U << place[i];
  return utf8(0x2800 + pattern);
}

// Two dots, one above the other.
std::string ascii_mark(unsigned bits) {
  constexpr const char* marks[] = {" ", "'", ".", ":"};
  return marks[bits & 3];
}

struct Frame {
  Axis steps, values;
  std::size_t columns = 0, rows = 0;  // of the field within the axes
  std::vector<std::string> labels;    // one for each row, all of the same width
};

// A label is placed in the row nearest to its tick, which is accurate enough.
std::vector<std::string> value_labels(const Axis& axis, std::size_t rows) {
  std::vector<std::string> labels(rows);
  for (const double tick : axis.ticks) {
    const auto row = static_cast<std::size_t>(std::lround((1 - axis.share(tick)) * static_cast<double>(rows - 1)));
    if (row < rows) labels[row] = axis.label(tick);
  }
  std::size_t width = 0;
  for (const std::string& label : labels) width = std::max(width, label.size());
  for (std::string& label : labels) label.insert(0, width - label.size(), ' ');
  return labels;
}

std::optional<Frame> frame_of(std::span<const Curve* const> curves, const TextPlotForm& form) {
  const auto bounds = bounds_of(curves);
  if (!bounds) return std::nullopt;
  Frame frame;
  frame.rows = std::max<std::size_t>(form.height, 4);
  frame.values = make_axis(bounds->least, bounds->most, std::max(2, static_cast<int>(frame.rows / 3)), false);
  frame.labels = value_labels(frame.values, frame.rows);
  frame.columns = std::max<std::size_t>(form.width, 30) - frame.labels.front().size() - 3;
  frame.steps = make_count_axis(bounds->first, bounds->last, static_cast<int>(frame.columns / 12) + 1);
  return frame;
}

DotField draw(const Curve& curve, const Frame& frame, std::size_t across, std::size_t down) {
  DotField field(frame.columns, frame.rows, across, down);
  for (const CurvePoint& point : thinned(curve, frame.columns * across))
    field.draw(frame.steps.share(point.step), frame.values.share(point.value));
  return field;
}

// The line under the field, and the steps under that.
std::string step_axis(const Frame& frame, bool unicode) {
  const std::size_t indent = frame.labels.front().size() + 1;
  std::string line = std::string(indent, ' ') + (unicode ? "└" : "+"), numbers(indent + 1 + frame.columns, ' ');
  std::vector<bool> marked(frame.columns);
  std::size_t free_from = 0;
  for (const double tick : frame.steps.ticks) {
    const auto column =
        static_cast<std::size_t>(std::lround(frame.steps.share(tick) * static_cast<double>(frame.columns - 1)));
    const std::string label = frame.steps.label(tick);
    std::size_t begin = indent + 1 + column - std::min(label.size() / 2, column);
    begin = std::min(begin, numbers.size() - std::min(numbers.size(), label.size()));
    if (begin < free_from) continue;
    marked[column] = true;
    numbers.replace(begin, label.size(), label);
    free_from = begin + label.size() + 1;
  }
  for (const bool mark : marked) line += unicode ? (mark ? "┬" : "─") : (mark ? "+" : "-");
  numbers.erase(numbers.find_last_not_of(' ') + 1);
  return line + "\n" + numbers + "\n";
}

template <class CellText>
std::string framed(const Frame& frame, const TextPlotForm& form, CellText cell_text) {
  std::string text;
  for (std::size_t row = 0; row < frame.rows; ++row) {
    const bool labelled = frame.labels[row].find_first_not_of(' ') != std::string::npos;
    std::string line = frame.labels[row] + " " + (form.unicode ? (labelled ? "┤" : "│") : (labelled ? "+" : "|"));
    std::size_t blanks = 0;
    for (std::size_t column = 0; column < frame.columns; ++column) {
      const std::string cell = cell_text(column, row);
      if (cell == " ") {
        ++blanks;
        continue;
      }
      line += std::string(blanks, ' ') + cell;
      blanks = 0;
    }
    text += line + "\n";
  }
  return text + step_axis(frame, form.unicode);
}

}  // namespace

std::string text_plot(const Curve& curve, const TextPlotForm& form) {
  const auto frame = frame_of(std::array{&curve}, form);
  if (!frame) return "";
  const DotField field = form.unicode ? draw(curve, *frame, 2, 4) : draw(curve, *frame, 1, 2);
  return framed(*frame, form, [&](std::size_t column, std::size_t row) {
    const unsigned bits = field.cell(column, row);
    const std::string mark = form.unicode ? braille(bits) : ascii_mark(bits);
    return mark == " " ? mark : paint(Colour::green, mark, form.colour);
  });
}

std::string text_plot_of_two(const NamedCurve& first, const NamedCurve& second, const TextPlotForm& form) {
  const auto frame = frame_of(std::array{&first.curve, &second.curve}, form);
  if (!frame) return "";
  const DotField a = draw(first.curve, *frame, 1, 1), b = draw(second.curve, *frame, 1, 1);
  std::string text = framed(*frame, form, [&](std::size_t column, std::size_t row) -> std::string {
    const bool of_a = a.cell(column, row) != 0, of_b = b.cell(column, row) != 0;
    if (of_a && of_b) return "*";
    if (of_a) return paint(Colour::green, "A", form.colour);
    return of_b ? paint(Colour::yellow, "B", form.colour) : " ";
  });
  return text + fmt::format("A {}, B {}, * both\n", first.name, second.name);
}

}  // namespace muster::store

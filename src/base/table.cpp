#include "base/table.hpp"

#include <algorithm>

#include "base/one_line.hpp"

namespace muster {

std::string paint(Colour colour, std::string_view text, bool enabled) {
  if (!enabled || colour == Colour::plain) return std::string(text);
  const char* code = "0";
  switch (colour) {
    case Colour::plain:
      break;
    case Colour::dim:
      code = "2";
      break;
    case Colour::bold:
      code = "1";
      break;
    case Colour::green:
      code = "32";
      break;
    case Colour::yellow:
      code = "33";
      break;
    case Colour::red:
      code = "31";
      break;
  }
  return std::string("\033[") + code + "m" + std::string(text) + "\033[0m";
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string format_table(const std::vector<std::vector<Cell>>& given, bool colour) {
  // Cells contain names that others chose: of models, folders, GPUs, runs.
  std::vector<std::vector<Cell>> rows = given;
  for (auto& row : rows)
    for (Cell& cell : row) cell.text = on_one_line(cell.text, cell.text.size());
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t column = 0; column < row.size(); ++column) {
      if (column == widths.size()) widths.push_back(0);
      widths[column] = std::max(widths[column], display_width(row[column].text));
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - display_width(row[column].text), ' ');
      const std::string painted = paint(row[column].colour, row[column].text, colour);
      const bool last = column + 1 == row.size();
      if (column > 0) line += "  ";
      line += row[column].right ? padding + painted : painted + (last ? "" : padding);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  }
  return text;
}

}  // namespace muster

// The pieces of every picture: SVG text that is readable on white and on black.
#pragma once

#include <string>
#include <string_view>

namespace muster::svg {

// Style rules for a picture's own classes, one set for each theme; "back", "text", "grid" and "axis" are always
// there.
struct Colours {
  std::string_view light, dark;
};

// Everything up to the first shape: the size, the style, the background and the title. What is added to it ends with
// ending.
std::string beginning(int width, int height, std::string_view title, const Colours& colours);
inline constexpr std::string_view ending = "</svg>\n";

// Text between tags or within an attribute.
std::string escaped(std::string_view text);
// anchor: "start", "middle" or "end".
std::string label(double x, double y, std::string_view text, std::string_view anchor);
// Read from bottom to top, its middle at (x, y).
std::string rising_label(double x, double y, std::string_view text);
// kind: the class that gives it its colour.
std::string line(std::string_view kind, double x1, double y1, double x2, double y2);

}  // namespace muster::svg

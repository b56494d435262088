#include "base/svg.hpp"

#include <fmt/format.h>

namespace muster::svg {

std::string beginning(int width, int height, std::string_view title, const Colours& colours) {
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n",
      width, height);
  // The viewer says which theme it is.
  svg += fmt::format(
      "<style>\n"
      ".back{{fill:#ffffff}}.text{{fill:#333333}}.grid{{stroke:#e3e3e3}}.axis{{stroke:#888888}}\n{}\n"
      "@media (prefers-color-scheme:dark){{\n"
      ".back{{fill:#16191d}}.text{{fill:#d0d0d0}}.grid{{stroke:#2c3137}}.axis{{stroke:#777777}}\n{}}}\n"
      "</style>\n",
      colours.light, colours.dark);
  svg += fmt::format("<rect class=\"back\" width=\"{}\" height=\"{}\"/>\n", width, height);
  return svg + fmt::format("<text class=\"text\" x=\"16\" y=\"30\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
                           escaped(title));
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
    }
  return out;
}

std::string label(double x, double y, std::string_view text, std::string_view anchor) {
  return fmt::format("<text class=\"text\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

std::string rising_label(double x, double y, std::string_view text) {
  return fmt::format(
      "<text class=\"text\" transform=\"translate({:.1f} {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n", x,
      y, escaped(text));
}

std::string line(std::string_view kind, double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1, y1, x2,
                     y2);
}

}  // namespace muster::svg

#include "launch/last_exception.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"

namespace muster::launch {
namespace {

constexpr std::size_t longest_exception = 12;  // lines

// torch puts "[rank3]: " before the lines of a traceback.
std::string_view without_rank(std::string_view line) {
  constexpr std::string_view begin = "[rank";
  if (!line.starts_with(begin)) return line;
  const std::size_t digits_end = line.find_first_not_of("0123456789", begin.size());
  if (digits_end == std::string_view::npos || !line.substr(digits_end).starts_with("]:")) return line;
  line.remove_prefix(digits_end + 2);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

// "ValueError: …", "torch.OutOfMemoryError: …", "KeyboardInterrupt".
bool is_exception(std::string_view line) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  constexpr std::array<std::string_view, 5> endings{"Error", "Exception", "Interrupt", "Exit", "Timeout"};
  const std::string_view name = line.substr(0, line.find(':'));
  return name.find_first_not_of(letters) == std::string_view::npos &&
         std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// "[W1114 22:13:20.1 …": what libraries log while the process is being taken down.
bool is_log_line(std::string_view line) {
  return line.size() > 2 && line[0] == '[' && (line[1] == 'W' || line[1] == 'E' || line[1] == 'I') && line[2] >= '0' &&
         line[2] <= '9';
}

// The exception that begins with this line, and what more it says.
std::string from_line(std::span<const std::string> lines) {
  std::string text;
  for (const std::string& whole : lines.first(std::min(lines.size(), longest_exception))) {
    const std::string_view line = without_rank(whole);
    if (!text.empty() && (is_log_line(line) || line.starts_with("Exception ignored in"))) break;
    text.append(text.empty() ? "" : "\n").append(text.empty() ? trim(line) : line);
  }
  return std::string(trim(text));
}

// Below a traceback: the first line that is not indented.
std::string below_traceback(std::span<const std::string> lines) {
  const auto begins = [](const std::string& line) {
    const std::string_view text = without_rank(line);
    return !text.empty() && text[0] != ' ';
  };
  const auto found = std::ranges::find_if(lines, begins);
  return from_line(lines.subspan(static_cast<std::size_t>(found - lines.begin())));
}

// Below "terminate called after throwing an instance of …".
std::string below_terminate(std::span<const std::string> lines) {
  constexpr std::string_view mark = "what():";
  std::string text = from_line(lines);
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? text : std::string(trim(std::string_view(text).substr(at + mark.size())));
}

}  // namespace

std::string last_exception(std::span<const std::string> lines) {
  for (std::size_t at = lines.size(); at-- > 0;) {
    const std::string_view line = without_rank(lines[at]);
    if (line.starts_with("terminate called")) return below_terminate(lines.subspan(at));
    if (!line.starts_with("Traceback (most recent call last)")) continue;
    // Destructors fail while the interpreter shuts down; that is an effect, and not the cause.
    if (at > 0 && without_rank(lines[at - 1]).starts_with("Exception ignored in")) continue;
    return below_traceback(lines.subspan(at + 1));
  }
  for (std::size_t at = lines.size(); at-- > 0;)
    if (is_exception(without_rank(lines[at]))) return from_line(lines.subspan(at));
  return {};
}

}  // namespace muster::launch

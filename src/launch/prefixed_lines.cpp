#include "launch/prefixed_lines.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster::launch {
namespace {

// The first such byte, or end.
const char* find(const char* begin, const char* end, char byte) {
  if (begin == end) return end;
  const void* found = std::memchr(begin, byte, static_cast<std::size_t>(end - begin));
  return found == nullptr ? end : static_cast<const char*>(found);
}

}  // namespace

PrefixedLines::PrefixedLines(std::string prefix, std::vector<std::string> filters)
    : prefix_(std::move(prefix)), filters_(std::move(filters)) {}

void PrefixedLines::take(std::string_view bytes, LineBlock& block) {
  if (bytes.empty()) return;
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  if (std::exchange(ended_by_return_, false) && *at == '\n') ++at;
  const char* next_return = find(at, end, '\r');
  while (at != end) {
    const char* const stop = find(at, next_return, '\n');
    if (stop == end) return hold({at, end}, block);
    complete({at, stop}, block);
    at = stop + 1;
    if (stop != next_return) continue;
    // Shown at once, without waiting for the byte after it: a progress bar may pause here.
    if (at == end) ended_by_return_ = true;
    if (at != end && *at == '\n') ++at;
    next_return = find(at, end, '\r');
  }
}

void PrefixedLines::end(LineBlock& block) {
  if (!held_.empty()) complete({}, block);
  ended_by_return_ = false;
}

void PrefixedLines::complete(std::string_view rest_of_line, LineBlock& block) {
  if (held_.empty() && rest_of_line.size() <= longest_line) return put(rest_of_line, block);
  hold(rest_of_line, block);
  put(held_, block);
  held_.clear();
}

void PrefixedLines::hold(std::string_view part, LineBlock& block) {
  held_ += part;
  std::string_view whole = held_;
  while (whole.size() > longest_line) {
    put(whole.substr(0, longest_line), block);
    whole.remove_prefix(longest_line);
  }
  if (whole.size() != held_.size()) held_.erase(0, held_.size() - whole.size());
}

void PrefixedLines::put(std::string_view line, LineBlock& block) const {
  const auto append = [&](std::string& text) { text.append(prefix_).append(line).push_back('\n'); };
  append(block.lines);
  const auto holds = [&](const std::string& filter) { return line.find(filter) != std::string_view::npos; };
  if (std::ranges::any_of(filters_, holds)) append(block.matched);
}

}  // namespace muster::launch

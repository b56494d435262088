#include "worker/answer_text.hpp"

#include <algorithm>
#include <utility>

namespace muster::worker {

// The longest end of what is held that a stop text begins with.
std::size_t StopSearch::longest_beginning() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_)
    for (std::size_t length = std::min(held_.size(), stop.size() - 1); length > longest; --length)
      if (held_.ends_with(std::string_view(stop).substr(0, length))) longest = length;
  return longest;
}

std::string StopSearch::push(std::string_view piece) {
  if (found_) return {};
  held_ += piece;
  std::pair first{std::string::npos, std::string::npos};  // where the stop text ends, and where it begins
  for (const std::string& stop : stops_)
    if (const auto start = held_.find(stop); start != std::string::npos)
      first = std::min(first, std::pair{start + stop.size(), start});
  found_ = first.first != std::string::npos;
  const std::size_t certain = found_ ? first.second : held_.size() - longest_beginning();
  std::string text = held_.substr(0, certain);
  held_.erase(0, found_ ? std::string::npos : certain);
  return text;
}

std::string AnswerText::finish() {
  std::string text = search_.push(decoder_.finish());
  return text + search_.finish();
}

}  // namespace muster::worker

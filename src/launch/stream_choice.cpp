#include <fmt/format.h>

#include "base/text.hpp"
#include "launch/log_folder.hpp"

namespace muster::launch {
namespace {

Error not_accepted(std::string_view text, std::string_view reason) {
  return {Error::Kind::bad_input, fmt::format("\"{}\" does not choose streams: {}", text, reason),
          "0 (none), 1 (output), 2 (errors) or 3 (both) for every rank, or by local rank: 0:3,1:1"};
}

std::optional<Streams> parse_streams(std::string_view digit) {
  if (digit.size() != 1 || digit[0] < '0' || digit[0] > '3') return std::nullopt;
  const int bits = digit[0] - '0';
  return Streams{(bits & 1) != 0, (bits & 2) != 0};
}

// Digits only: a sign is not part of a rank.
std::optional<int> parse_rank(std::string_view text) {
  if (text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return parse_number<int>(text);
}

}  // namespace

Result<StreamChoice> StreamChoice::parse(std::string_view text) {
  StreamChoice choice;
  if (text.find(':') == std::string_view::npos) {
    const auto every = parse_streams(text);
    if (!every) return not_accepted(text, "it is not one of 0, 1, 2 and 3");
    choice.every_ = *every;
    return choice;
  }
  choice.named_ = true;
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos) return not_accepted(text, fmt::format("\"{}\" is not rank:streams", part));
    const auto rank = parse_rank(std::string_view(part).substr(0, colon));
    const auto streams = parse_streams(std::string_view(part).substr(colon + 1));
    if (!rank) return not_accepted(text, fmt::format("\"{}\" is not a local rank", part.substr(0, colon)));
    if (!streams) return not_accepted(text, fmt::format("\"{}\" is not one of 0, 1, 2 and 3", part.substr(colon + 1)));
    if (!choice.by_rank_.emplace(*rank, *streams).second)
      return not_accepted(text, fmt::format("local rank {} stands there twice", *rank));
  }
  return choice;
}

Streams StreamChoice::of(int local_rank) const {
  if (!named_) return every_;
  const auto found = by_rank_.find(local_rank);
  return found == by_rank_.end() ? Streams{} : found->second;
}

}  // namespace muster::launch

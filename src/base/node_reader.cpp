#include "base/node_reader.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/text.hpp"

namespace muster {

void NodeReader::refuse(TextPosition position, std::string what, std::string remedy) {
  problems_.push_back({location(source_, position), std::move(what), std::move(remedy)});
}

void NodeReader::refuse_value(const Node& node, std::string_view accepted) {
  const std::string subject = key_.empty() ? "the file" : key_;
  refuse(node.position, fmt::format("{} is {}", subject, describe(node)), fmt::format("it must be {}", accepted));
}

void NodeReader::refuse_key(const Node::Entry& entry, std::span<const std::string> known) {
  const auto meant = nearest(entry.key, known);
  refuse(entry.position, fmt::format("unknown key \"{}\"", entry.key),
         meant ? fmt::format("did you mean \"{}\"?", *meant) : fmt::format("known keys: {}", join(known, ", ")));
}

bool NodeReader::is(const Node& node, Node::Kind kind, std::string_view accepted) {
  if (node.kind == kind) return true;
  refuse_value(node, accepted);
  return false;
}

std::span<const Node> NodeReader::list(const Node& node) {
  if (!is(node, Node::Kind::list, "a list")) return {};
  return node.items;
}

std::optional<std::int64_t> NodeReader::integer(const Node& node, std::int64_t least, std::int64_t most) {
  std::optional<std::int64_t> number;
  if (node.kind == Node::Kind::scalar && !node.quoted) number = parse_number<std::int64_t>(node.text);
  if (number && *number >= least && *number <= most) return number;
  const bool bounded = most < std::numeric_limits<int>::max();
  refuse_value(node, bounded ? fmt::format("a whole number from {} to {}", least, most)
                             : fmt::format("a whole number, {} or more", least));
  return std::nullopt;
}

std::optional<int> NodeReader::count(const Node& node, int least, int most) {
  const auto number = integer(node, least, most);
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

std::optional<double> NodeReader::quantity(const Node& node) {
  std::optional<double> number;
  if (node.kind == Node::Kind::scalar && !node.quoted) number = parse_number<double>(node.text);
  if (number && std::isfinite(*number) && *number >= 0) return number;
  refuse_value(node, "a number, 0 or more");
  return std::nullopt;
}

std::optional<ByteCount> NodeReader::size(const Node& node) {
  constexpr std::string_view accepted = "a size, as in 80GiB; a number alone means bytes";
  if (!is(node, Node::Kind::scalar, accepted)) return std::nullopt;
  const auto bytes = parse_byte_count(node.text);
  if (bytes) return *bytes;
  refuse(node.position, fmt::format("{}: {}", key_, bytes.error().what), bytes.error().remedy);
  return std::nullopt;
}

std::optional<bool> NodeReader::boolean(const Node& node) {
  if (node.kind == Node::Kind::scalar && !node.quoted) {
    const std::string word = to_lower(node.text);
    if (word == "true") return true;
    if (word == "false") return false;
  }
  refuse_value(node, "true or false");
  return std::nullopt;
}

std::optional<std::string> NodeReader::text(const Node& node) {
  if (!is(node, Node::Kind::scalar, "text")) return std::nullopt;
  if (!node.text.empty()) return node.text;
  refuse_value(node, "text that is not empty");
  return std::nullopt;
}

}  // namespace muster

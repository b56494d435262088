// YAML or JSON text as a tree that remembers where everything was, so that messages can say file:line:column.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace muster {

struct TextPosition {
  int line = 1;
  int column = 1;
  bool operator==(const TextPosition&) const = default;
};

struct Node {
  enum class Kind { null, scalar, list, table };
  struct Entry;

  Kind kind = Kind::null;
  std::string text;     // scalar: as written, quotes removed
  bool quoted = false;  // scalar: "12" is text, 12 may be a number
  TextPosition position;
  std::vector<Node> items;     // list
  std::vector<Entry> entries;  // table, in the order written, keys unique

  const Node* find(std::string_view key) const;
};

struct Node::Entry {
  std::string key;
  TextPosition position;  // of the key
  Node value;
};

// One document. Duplicate keys, keys that are not scalars, several documents, and texts that expand to too much
// memory are refused. An empty text is a null node. source names the text in messages ("run.yaml").
Result<Node> parse_document(std::string_view text, std::string_view source);

// The word for messages: "a list", "a table", "nothing", "\"text\"".
std::string describe(const Node& node);

// "run.yaml:3:5"
std::string location(std::string_view source, TextPosition position);

}  // namespace muster

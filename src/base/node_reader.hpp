// Reads the values of a document into typed fields and collects every problem on the way.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_count.hpp"
#include "base/document.hpp"
#include "base/error.hpp"

namespace muster {

class NodeReader;

// One key of a table: its name, and how its value changes the target.
template <class Target>
struct NodeKey {
  std::string_view name;
  void (*read)(NodeReader& reader, const Node& value, Target& target);
};

class NodeReader {
 public:
  explicit NodeReader(std::string_view source) : source_(source) {}

  const std::string& source() const { return source_; }
  const std::vector<Problem>& problems() const { return problems_; }
  void refuse(TextPosition position, std::string what, std::string remedy);

  // Each known key goes to its reader; null means unknown, as if the key were missing.
  template <class Target>
  void table(const Node& node, std::span<const NodeKey<Target>> keys, Target& target) {
    if (!is(node, Node::Kind::table, "a table")) return;
    const std::string outer = key_;
    for (const Node::Entry& entry : node.entries) {
      const NodeKey<Target>* known = nullptr;
      for (const NodeKey<Target>& key : keys)
        if (key.name == entry.key) known = &key;
      if (known == nullptr) {
        std::vector<std::string> names;
        for (const NodeKey<Target>& key : keys) names.emplace_back(key.name);
        refuse_key(entry, names);
      } else if (entry.value.kind != Node::Kind::null) {
        key_ = entry.key;
        known->read(*this, entry.value, target);
      }
    }
    key_ = outer;
  }

  // The items of a list; none, and a problem, if it is something else.
  std::span<const Node> list(const Node& node);

  std::optional<std::int64_t> integer(const Node& node, std::int64_t least, std::int64_t most);
  std::optional<int> count(const Node& node, int least = 0, int most = std::numeric_limits<int>::max());
  std::optional<int> percent(const Node& node) { return count(node, 0, 100); }
  std::optional<double> quantity(const Node& node);  // not negative
  std::optional<ByteCount> size(const Node& node);
  std::optional<bool> boolean(const Node& node);
  std::optional<std::string> text(const Node& node);

  // The value under the current key is not what it should be.
  void refuse_value(const Node& node, std::string_view accepted);

 private:
  bool is(const Node& node, Node::Kind kind, std::string_view accepted);
  void refuse_key(const Node::Entry& entry, std::span<const std::string> known);

  std::string source_;
  std::string key_;  // the one being read
  std::vector<Problem> problems_;
};

}  // namespace muster

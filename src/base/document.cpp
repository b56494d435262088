#include "base/document.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>
#include <unordered_map>

namespace muster {
namespace {

// Note [Document limits]: aliases let a few lines stand for billions of nodes, or for one long text a million times,
// and every anchor keeps a copy of what it names. So what the tree and the anchors hold is counted in bytes; a
// configuration never needs more than this. The parser itself refuses nesting that would exhaust the stack.
constexpr std::size_t longest_document = std::size_t{8} << 20;   // of text
constexpr std::size_t most_tree_bytes = std::size_t{128} << 20;  // of what it expands to

struct DocumentRefused {
  TextPosition position;
  std::string what;
};

TextPosition from_mark(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// Builds the tree from the parser's events; throws DocumentRefused, which parse_document turns into an Error.
class TreeBuilder final : public YAML::EventHandler {
 public:
  Node take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.position = from_mark(mark);
    place(std::move(node), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node;
    node.kind = Node::Kind::scalar;
    node.position = from_mark(mark);
    node.text = value;
    node.quoted = tag == "!";
    place(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw DocumentRefused{from_mark(mark), "an alias that contains itself"};
    count(found->second, from_mark(mark));
    Node copy = found->second;
    copy.position = from_mark(mark);
    put(std::move(copy));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::list, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::Kind::table, mark, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;
    std::string key;
    TextPosition key_position;
    std::unordered_map<std::string, int> keys;  // with their lines
  };

  void open(Node::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    Open frame;
    frame.node.kind = kind;
    frame.node.position = from_mark(mark);
    frame.anchor = anchor;
    open_.push_back(std::move(frame));
  }

  void close() {
    Open frame = std::move(open_.back());
    open_.pop_back();
    place(std::move(frame.node), frame.anchor);
  }

  // A node of the text, for the first time.
  void place(Node node, YAML::anchor_t anchor) {
    take(sizeof node + node.text.size(), node.position);
    if (anchor != 0) {
      count(node, node.position);
      anchors_[anchor] = node;
    }
    put(std::move(node));
  }

  void put(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == Node::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      take_key(parent, node);
    } else {
      parent.node.entries.push_back({std::move(parent.key), parent.key_position, std::move(node)});
      parent.has_key = false;
    }
  }

  static void take_key(Open& parent, const Node& node) {
    if (node.kind == Node::Kind::list || node.kind == Node::Kind::table)
      throw DocumentRefused{node.position, "a key that is " + describe(node)};
    const std::string key = node.kind == Node::Kind::null ? "null" : node.text;
    if (key == "<<" && !node.quoted) throw DocumentRefused{node.position, "a merge key (<<), which is not supported"};
    const auto [earlier, is_new] = parent.keys.emplace(key, node.position.line);
    if (!is_new)
      throw DocumentRefused{node.position,
                            fmt::format("the key \"{}\" a second time (first on line {})", key, earlier->second)};
    parent.key = key;
    parent.key_position = node.position;
    parent.has_key = true;
  }

  // A copy of node.
  void count(const Node& node, TextPosition position) {
    take(sizeof node + node.text.size(), position);
    for (const Node& item : node.items) count(item, position);
    for (const Node::Entry& entry : node.entries) {
      take(sizeof entry + entry.key.size(), position);
      count(entry.value, position);
    }
  }

  void take(std::size_t bytes, TextPosition position) {
    tree_bytes_ += bytes;
    if (tree_bytes_ > most_tree_bytes)
      throw DocumentRefused{position, fmt::format("values and aliases that stand for more than {} bytes in memory",
                                                  most_tree_bytes)};
  }

  Node root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::size_t tree_bytes_ = 0;
};

Error refuse(std::string_view source, TextPosition position, std::string_view what) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", location(source, position), what), ""};
}

}  // namespace

const Node* Node::find(std::string_view key) const {
  for (const Entry& entry : entries)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

Result<Node> parse_document(std::string_view text, std::string_view source) {
  if (text.size() > longest_document)
    return refuse(source, {}, fmt::format("{} bytes of text, at most {} are read", text.size(), longest_document));
  if (const auto zero = text.find('\0'); zero != std::string_view::npos)
    return refuse(source, {}, fmt::format("a zero byte at offset {}: not a text file", zero));
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    TreeBuilder builder;
    if (!parser.HandleNextDocument(builder)) return Node{};
    Node root = builder.take_root();
    TreeBuilder rest;
    if (parser.HandleNextDocument(rest))
      return refuse(source, root.position, "more than one document; one is expected");
    return root;
  } catch (const DocumentRefused& refused) {
    return refuse(source, refused.position, refused.what);
  } catch (const YAML::Exception& error) {
    return refuse(source, from_mark(error.mark), fmt::format("not valid YAML or JSON: {}", error.msg));
  }
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::scalar:
      return fmt::format("\"{}\"", node.text.size() > 60 ? node.text.substr(0, 57) + "..." : node.text);
    case Node::Kind::list:
      return "a list";
    case Node::Kind::table:
      return "a table";
  }
  return "nothing";
}

std::string location(std::string_view source, TextPosition position) {
  return fmt::format("{}:{}:{}", source, position.line, position.column);
}

}  // namespace muster

// What a chat template computes with: Python's values, as far as templates see them. Values are cheap to copy; lists
// and mappings are shared and never change, as in the sandbox that templates are written for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace muster::chat {

__extension__ using Integer = __int128;  // Python's have no bound; beyond this an operation fails

class Object;
struct Sequence;
class Dictionary;

// The value of a name that nothing was given for: empty text, false, no elements; most uses of it fail with this
// reason.
struct Undefined {
  std::shared_ptr<const std::string> reason;
};
struct None {};

struct Text {
  std::shared_ptr<const std::string> bytes;  // UTF-8
  bool markup = false;                       // went through the filter "safe": what is added to it gets escaped
};

class Value {
 public:
  using Storage = std::variant<Undefined, None, bool, Integer, double, Text, std::shared_ptr<Sequence>,
                               std::shared_ptr<const Dictionary>, std::shared_ptr<Object>>;

  Value() = default;  // undefined
  Value(Undefined undefined) : storage_(std::move(undefined)) {}
  Value(None none) : storage_(none) {}
  Value(bool truth) : storage_(truth) {}
  Value(Integer integer) : storage_(integer) {}
  Value(double number) : storage_(number) {}
  Value(Text text) : storage_(std::move(text)) {}
  Value(std::string text, bool markup = false)
      : storage_(Text{std::make_shared<const std::string>(std::move(text)), markup}) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char*) = delete;  // would be taken for a bool
  Value(std::shared_ptr<Sequence> sequence) : storage_(std::move(sequence)) {}
  Value(std::shared_ptr<const Dictionary> dictionary) : storage_(std::move(dictionary)) {}
  Value(std::shared_ptr<Object> object) : storage_(std::move(object)) {}

  bool is_undefined() const { return std::holds_alternative<Undefined>(storage_); }
  bool is_none() const { return std::holds_alternative<None>(storage_); }
  bool is_text() const { return std::holds_alternative<Text>(storage_); }
  bool is_markup() const { return is_text() && std::get<Text>(storage_).markup; }
  const Storage& storage() const { return storage_; }

  // Each: the part, or nothing where the value is of another kind.
  const std::string* text() const;
  const bool* truth() const { return std::get_if<bool>(&storage_); }
  const double* number() const { return std::get_if<double>(&storage_); }
  const Undefined* undefined() const { return std::get_if<Undefined>(&storage_); }
  Sequence* sequence() const;
  const Dictionary* dictionary() const;
  Object* object() const;
  const std::shared_ptr<Object>* shared_object() const { return std::get_if<std::shared_ptr<Object>>(&storage_); }

 private:
  Storage storage_;
};

// An undefined value with its reason.
Value undefined(std::string reason);

// How much there is to a list or mapping with all that is inside of it, counted when it is made: what walks through a
// value neither runs out of stack nor takes longer than its weight.
struct Extent {
  int depth = 1;           // of nesting; 0 for what holds nothing
  std::size_t weight = 1;  // values in all, each counted as often as it is met
  void add(const Value& held);
};
Extent extent_of(const Value& value);

// What is iterated over. Lists and tuples can be indexed; the views of a mapping can be counted; a generator gives each
// element once.
struct Sequence {
  enum class Kind { list, tuple, range, keys, values, items, generator };
  Kind kind = Kind::list;
  std::vector<Value> elements;
  Extent extent;
  std::size_t consumed = 0;               // of a generator
  Integer start = 0, stop = 0, step = 1;  // of a range, as Python writes it

  bool is_indexed() const { return kind == Kind::list || kind == Kind::tuple || kind == Kind::range; }
};

// A mapping in the order of its making.
class Dictionary {
 public:
  using Entry = std::pair<Value, Value>;
  const std::vector<Entry>& entries() const { return entries_; }
  const Value* find(const Value& key) const;
  const Value* find_text(std::string_view key) const;
  void assign(Value key, Value value);  // while it is made
  Extent extent;

 private:
  std::size_t position(const Value& key) const;  // entries_.size() when there is none
  std::vector<Entry> entries_;
  std::vector<std::pair<std::size_t, std::size_t>> hashes_;  // of text keys, sorted once there are many
  std::size_t sorted_ = 0;
};

// Whether a key of a mapping may be of this kind (text, numbers, none, tuples of them).
bool is_hashable(const Value& value);

// bool(value), and value == value, as Python has them.
bool is_true(const Value& value);
bool is_equal(const Value& left, const Value& right);

// The integer that a value is; a bool counts as 0 or 1.
bool to_integer(const Value& value, Integer& integer);
// A number as a float: integers and bools too.
bool to_number(const Value& value, double& number);

// "str", "int", "list", … as Python names the type, for messages.
std::string_view type_name(const Value& value);

}  // namespace muster::chat

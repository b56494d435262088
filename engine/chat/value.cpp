#include "chat/value.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "chat/object.hpp"

namespace muster::chat {
namespace {

constexpr std::size_t few = 16;  // entries that are looked through one by one

const std::string empty_text;

bool same_elements(const std::vector<Value>& left, const std::vector<Value>& right) {
  return std::ranges::equal(left, right, is_equal);
}

bool same_entries(const Dictionary& left, const Dictionary& right) {
  if (left.entries().size() != right.entries().size()) return false;
  return std::ranges::all_of(left.entries(), [&](const Dictionary::Entry& entry) {
    const Value* other = right.find(entry.first);
    return other != nullptr && is_equal(entry.second, *other);
  });
}

bool same_sequences(const Sequence& left, const Sequence& right) {
  if (&left == &right) return true;
  if (left.kind != right.kind || left.kind == Sequence::Kind::generator || left.kind == Sequence::Kind::values)
    return false;
  return same_elements(left.elements, right.elements);
}

}  // namespace

const std::string* Value::text() const {
  const auto* text = std::get_if<Text>(&storage_);
  if (text == nullptr) return nullptr;
  return text->bytes ? text->bytes.get() : &empty_text;
}

Sequence* Value::sequence() const {
  const auto* held = std::get_if<std::shared_ptr<Sequence>>(&storage_);
  return held == nullptr ? nullptr : held->get();
}

const Dictionary* Value::dictionary() const {
  const auto* held = std::get_if<std::shared_ptr<const Dictionary>>(&storage_);
  return held == nullptr ? nullptr : held->get();
}

Object* Value::object() const {
  const auto* held = std::get_if<std::shared_ptr<Object>>(&storage_);
  return held == nullptr ? nullptr : held->get();
}

std::size_t Dictionary::position(const Value& key) const {
  const std::string* text = key.text();
  if (text == nullptr || entries_.size() <= few) {
    const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) { return is_equal(entry.first, key); });
    return static_cast<std::size_t>(found - entries_.begin());
  }
  const auto matches = [&](const auto& hash) { return is_equal(entries_[hash.second].first, key); };
  const std::size_t wanted = std::hash<std::string>{}(*text);
  const auto sorted_end = hashes_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  for (auto at = std::lower_bound(hashes_.begin(), sorted_end, std::pair(wanted, std::size_t{0}));
       at != sorted_end && at->first == wanted; ++at)
    if (matches(*at)) return at->second;
  for (auto at = sorted_end; at != hashes_.end(); ++at)
    if (at->first == wanted && matches(*at)) return at->second;
  return entries_.size();
}

const Value* Dictionary::find(const Value& key) const {
  const std::size_t at = position(key);
  return at == entries_.size() ? nullptr : &entries_[at].second;
}

const Value* Dictionary::find_text(std::string_view key) const { return find(Value(key)); }

void Dictionary::assign(Value key, Value value) {
  extent.add(key);
  extent.add(value);
  const std::size_t at = position(key);
  if (at < entries_.size()) {
    entries_[at].second = std::move(value);
    return;
  }
  if (const std::string* text = key.text()) hashes_.emplace_back(std::hash<std::string>{}(*text), entries_.size());
  entries_.emplace_back(std::move(key), std::move(value));
  if (hashes_.size() - sorted_ > few + sorted_ / 8) {  // the unsorted rest stays short
    std::ranges::sort(hashes_);
    sorted_ = hashes_.size();
  }
}

bool is_hashable(const Value& value) {
  if (const Sequence* sequence = value.sequence())
    return sequence->kind == Sequence::Kind::tuple && std::ranges::all_of(sequence->elements, is_hashable);
  return value.dictionary() == nullptr;
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const bool* truth = value.truth()) return *truth;
  if (const auto* integer = std::get_if<Integer>(&value.storage())) return *integer != 0;
  if (const double* number = value.number()) return *number != 0;
  if (const std::string* text = value.text()) return !text->empty();
  if (const Sequence* sequence = value.sequence())
    return sequence->kind == Sequence::Kind::generator || !sequence->elements.empty();
  if (const Dictionary* dictionary = value.dictionary()) return !dictionary->entries().empty();
  return true;
}

bool is_equal(const Value& left, const Value& right) {
  Integer first = 0, second = 0;
  if (to_integer(left, first) && to_integer(right, second)) return first == second;
  double a = 0, b = 0;
  if (to_number(left, a) && to_number(right, b)) return a == b;
  if (left.is_undefined() || right.is_undefined()) return left.is_undefined() && right.is_undefined();
  if (left.is_none() || right.is_none()) return left.is_none() && right.is_none();
  if (left.text() && right.text()) return *left.text() == *right.text();
  if (left.sequence() && right.sequence()) return same_sequences(*left.sequence(), *right.sequence());
  if (left.dictionary() && right.dictionary()) return same_entries(*left.dictionary(), *right.dictionary());
  return left.object() != nullptr && left.object() == right.object();
}

bool to_integer(const Value& value, Integer& integer) {
  if (const bool* truth = value.truth()) integer = *truth ? 1 : 0;
  if (const auto* held = std::get_if<Integer>(&value.storage())) integer = *held;
  return value.truth() != nullptr || std::holds_alternative<Integer>(value.storage());
}

bool to_number(const Value& value, double& number) {
  Integer integer = 0;
  if (to_integer(value, integer)) {
    number = static_cast<double>(integer);
    return true;
  }
  if (value.number() == nullptr) return false;
  number = *value.number();
  return true;
}

Value undefined(std::string reason) { return Undefined{std::make_shared<const std::string>(std::move(reason))}; }

void Extent::add(const Value& held) {
  const Extent inner = extent_of(held);
  depth = std::max(depth, 1 + inner.depth);
  if (__builtin_add_overflow(weight, inner.weight, &weight)) weight = SIZE_MAX;
}

Extent extent_of(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->extent;
  if (const Dictionary* dictionary = value.dictionary()) return dictionary->extent;
  return {0, 1};
}

std::string_view type_name(const Value& value) {
  constexpr std::string_view sequences[] = {"list",        "tuple",      "range",    "dict_keys",
                                            "dict_values", "dict_items", "generator"};
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.truth()) return "bool";
  if (std::holds_alternative<Integer>(value.storage())) return "int";
  if (value.number()) return "float";
  if (value.text()) return "str";
  if (value.sequence()) return sequences[static_cast<std::size_t>(value.sequence()->kind)];
  if (value.dictionary()) return "dict";
  return value.object()->type();
}

}  // namespace muster::chat

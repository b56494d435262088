#include "chat/attributes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chat/code_points.hpp"
#include "chat/evaluation.hpp"

namespace muster::chat {
namespace {

// A function of the tables, or a method with its subject.
class Native : public Object {
 public:
  Native(const NativeFunction& function, Value subject) : function_(function), subject_(std::move(subject)) {}
  std::string shown() const override { return fmt::format("<function {}>", function_.name); }
  bool is_callable() const override { return true; }
  Value call(Evaluation& evaluation, const Arguments& arguments) override {
    return invoke(evaluation, function_, subject_, arguments);
  }

 private:
  const NativeFunction& function_;
  Value subject_;
};

struct Methods {
  NativeTable known;
  std::string_view changing;  // change what they are called on, which the sandbox of templates forbids
  std::string_view others;    // exist in Python
};

Methods methods_of(const Value& value) {
  constexpr std::string_view list_changes = " append clear extend insert pop remove reverse sort ";
  constexpr std::string_view dictionary_changes = " clear pop popitem setdefault update ";
  constexpr std::string_view other_texts =
      " casefold encode expandtabs format_map isidentifier istitle maketrans swapcase translate ";
  constexpr std::string_view numbers =
      " as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag is_integer numerator "
      "real "
      "to_bytes ";
  if (value.text()) return {text_methods(), "", other_texts};
  if (value.dictionary()) return {dictionary_methods(), dictionary_changes, " copy fromkeys "};
  if (const Sequence* sequence = value.sequence()) {
    if (sequence->kind == Sequence::Kind::list) return {list_methods(), list_changes, " copy "};
    if (sequence->is_indexed()) return {list_methods(), "", " start stop step "};
    return {{}, "", " isdisjoint mapping send throw close "};
  }
  double number = 0;
  if (to_number(value, number)) return {{}, "", numbers};
  return {{}, "", ""};
}

bool names(std::string_view list, std::string_view name) {
  return !name.empty() && list.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

Value unsafe(std::string_view name, const Value& subject) {
  return undefined(fmt::format("'{}' of {} is closed to templates", name, type_name(subject)));
}

// What getattr(subject, name) would find. Found nothing: false.
bool find_attribute(Evaluation& evaluation, const Value& subject, std::string_view name, Value& found) {
  if (name.starts_with("__") && name.ends_with("__")) {
    found = unsafe(name, subject);
    return true;
  }
  if (const Object* object = subject.object()) {
    found = object->attribute(evaluation, name);
    return true;
  }
  const Methods methods = methods_of(subject);
  if (const NativeFunction* method = find(methods.known, name))
    found = bound_method(*method, subject);
  else if (names(methods.changing, name))
    found = unsafe(name, subject);
  else if (names(methods.others, name))
    found = evaluation.fail(fmt::format("'{}' of {} is not known here", name, type_name(subject)));
  else
    return false;
  return true;
}

Value element_at(const Value& subject, const Sequence& sequence, Integer index) {
  const auto count = static_cast<Integer>(sequence.elements.size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) return undefined(fmt::format("{} has no element {}", type_name(subject), index));
  return sequence.elements[static_cast<std::size_t>(index)];
}

Value character_at(Evaluation& evaluation, const Value& subject, Integer index) {
  const std::string& text = *subject.text();
  evaluation.charge(text.size() / 16);
  const auto count = static_cast<Integer>(count_code_points(text));
  if (index < 0) index += count;
  if (index < 0 || index >= count) return undefined(fmt::format("the text has no character {}", index));
  const std::size_t begin = byte_of_code_point(text, static_cast<std::size_t>(index));
  const std::size_t length = first_code_point(std::string_view(text).substr(begin)).length;
  return evaluation.text(text.substr(begin, length), subject.is_markup());
}

}  // namespace

Value Object::attribute(Evaluation&, std::string_view name) const {
  return undefined(fmt::format("{} has no attribute '{}'", type(), name));
}

Value Object::call(Evaluation& evaluation, const Arguments&) {
  return evaluation.fail(fmt::format("{} cannot be called", type()));
}

Value native(const NativeFunction& function) { return bound_method(function, {}); }

Value bound_method(const NativeFunction& method, Value subject) {
  return std::shared_ptr<Object>(std::make_shared<Native>(method, std::move(subject)));
}

std::string reason_of(const Value& value) {
  const Undefined* undefined = value.undefined();
  return undefined != nullptr && undefined->reason ? *undefined->reason : "an undefined value is used";
}

Value Evaluation::attribute(const Value& subject, std::string_view name) {
  if (failed()) return {};
  if (subject.undefined()) return fail(reason_of(subject));
  Value found;
  if (find_attribute(*this, subject, name, found)) return found;
  if (const Dictionary* dictionary = subject.dictionary())
    if (const Value* held = dictionary->find_text(name)) return *held;
  return undefined(fmt::format("{} has no attribute '{}'", type_name(subject), name));
}

Value Evaluation::item(const Value& subject, const Value& key) {
  if (failed()) return {};
  if (subject.undefined()) return fail(reason_of(subject));
  if (const Dictionary* dictionary = subject.dictionary(); dictionary && is_hashable(key))
    if (const Value* held = dictionary->find(key)) return *held;
  Integer index = 0;
  if (to_integer(key, index)) {
    const Sequence* sequence = subject.sequence();
    if (sequence && sequence->is_indexed()) return element_at(subject, *sequence, index);
    if (subject.text()) return character_at(*this, subject, index);
  }
  Value found;
  if (key.text() && find_attribute(*this, subject, *key.text(), found)) return found;
  return undefined(fmt::format("{} has no element {}", type_name(subject), to_text(key)));
}

}  // namespace muster::chat

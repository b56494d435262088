#include "chat/loop_object.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chat/attributes.hpp"
#include "chat/evaluation.hpp"

namespace muster::chat {
namespace {

Value cycle(Evaluation& evaluation, const Value& subject, const Given& given) {
  const auto& values = given.all().positional;
  if (values.empty()) return evaluation.fail("'loop.cycle' needs something to go through");
  return values[dynamic_cast<LoopObject&>(*subject.object()).index() % values.size()];
}

Value changed(Evaluation&, const Value& subject, const Given& given) {
  return dynamic_cast<LoopObject&>(*subject.object()).changed(given.all().positional);
}

constexpr NativeFunction methods[] = {{"cycle", cycle, {}, 0, true}, {"changed", changed, {}, 0, true}};

}  // namespace

std::string LoopObject::shown() const { return fmt::format("<LoopContext {}/{}>", index_ + 1, elements_.size()); }

bool LoopObject::changed(const std::vector<Value>& values) {
  if (has_changed_ && std::ranges::equal(values, last_changed_, is_equal)) return false;
  has_changed_ = true;
  last_changed_ = values;
  return true;
}

Value LoopObject::attribute(Evaluation& evaluation, std::string_view name) const {
  const std::size_t count = elements_.size();
  const auto number = [](std::size_t value) { return Value(static_cast<Integer>(value)); };
  if (name == "index") return number(index_ + 1);
  if (name == "index0") return number(index_);
  if (name == "revindex") return number(count - index_);
  if (name == "revindex0") return number(count - index_ - 1);
  if (name == "first") return index_ == 0;
  if (name == "last") return index_ + 1 == count;
  if (name == "length") return number(count);
  if (name == "depth") return number(1);  // loops that call themselves are refused
  if (name == "depth0") return number(0);
  if (name == "previtem") return index_ == 0 ? undefined("there is no previous item") : elements_[index_ - 1];
  if (name == "nextitem") return index_ + 1 == count ? undefined("there is no next item") : elements_[index_ + 1];
  if (const NativeFunction* method = find(methods, name))
    return bound_method(*method, std::const_pointer_cast<Object>(std::shared_ptr<const Object>(shared_from_this())));
  return Object::attribute(evaluation, name);
}

}  // namespace muster::chat

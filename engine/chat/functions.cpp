// Functions that every chat template finds: range, dict, namespace, raise_exception, strftime_now, cycler, joiner.
#include <fmt/format.h>

#include <ctime>

#include "chat/arguments.hpp"
#include "chat/attributes.hpp"

namespace muster::chat {
namespace {

constexpr Integer longest_range = 100'000;  // as the sandbox of templates has it

Value range(Evaluation& evaluation, const Value&, const Given& given) {
  const std::size_t count = given.all().positional.size();
  if (count < 1 || count > 3 || !given.all().named.empty())
    return evaluation.fail("'range' takes one to three integers");
  Integer numbers[3] = {0, 0, 1};
  for (std::size_t i = 0; i < count; ++i) {
    const Value& argument = given.all().positional[i];
    if (argument.undefined()) return evaluation.fail(reason_of(argument));
    if (!to_integer(argument, numbers[count == 1 ? 1 : i]))
      return evaluation.fail(fmt::format("'range' of {}", type_name(argument)));
  }
  const auto [start, stop, step] = numbers;
  if (step == 0) return evaluation.fail("'range' with steps of zero");
  std::vector<Value> elements;
  for (Integer i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<Integer>(elements.size()) >= longest_range)
      return evaluation.fail(fmt::format("'range' of more than {} numbers", longest_range));
    elements.emplace_back(i);
    if (step > 0 ? stop - i <= step : stop - i >= step) break;  // the next would be past the end, or overflow
  }
  Value made = evaluation.list(std::move(elements), Sequence::Kind::range);
  if (Sequence* sequence = made.sequence()) {
    sequence->start = start;
    sequence->stop = stop;
    sequence->step = step;
  }
  return made;
}

// What dict(…) and namespace(…) are made of: a mapping or pairs, and named arguments.
std::optional<Dictionary> gathered(Evaluation& evaluation, const Arguments& arguments) {
  Dictionary made;
  if (arguments.positional.size() > 1) {
    evaluation.fail("at most one argument without a name");
    return std::nullopt;
  }
  for (const Value& given : arguments.positional) {
    if (const Dictionary* dictionary = given.dictionary()) {
      made = *dictionary;
      continue;
    }
    for (const Value& pair : evaluation.iterate(given)) {
      const auto parts = evaluation.iterate(pair);
      if (parts.size() != 2 || !is_hashable(parts[0])) evaluation.fail("a mapping is made of pairs");
      if (evaluation.failed() || !evaluation.charge(made.entries().size())) return std::nullopt;
      made.assign(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) made.assign(Value(name), value);
  return made;
}

Value dict(Evaluation& evaluation, const Value&, const Given& given) {
  auto made = gathered(evaluation, given.all());
  return made ? evaluation.dictionary(std::move(*made)) : Value();
}

Value make_namespace(Evaluation& evaluation, const Value&, const Given& given) {
  const auto attributes = gathered(evaluation, given.all());
  if (!attributes) return {};
  auto made = std::make_shared<Namespace>();
  for (const auto& [name, value] : attributes->entries()) {
    const std::string text = evaluation.to_text(name);
    if (text.starts_with('_'))
      return evaluation.fail(fmt::format("a namespace takes no attribute that begins with '_': '{}'", text));
    made->set(text, value);
  }
  return evaluation.make_namespace(std::move(made));
}

Value raise_exception(Evaluation& evaluation, const Value&, const Given& given) {
  return evaluation.fail(fmt::format("the template refuses this conversation: {}", evaluation.to_text(*given.at(0))));
}

Value strftime_now(Evaluation& evaluation, const Value&, const Given& given) {
  const std::string format = text_at(evaluation, given, 0, "");
  std::tm now{};
  if (evaluation.options().now) {
    now = *evaluation.options().now;
  } else {
    const std::time_t seconds = std::time(nullptr);
    ::localtime_r(&seconds, &now);
  }
  if (format.empty()) return Value(std::string());
  std::string text(format.size() * 40 + 100, '\0');  // no directive takes more
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &now));
  return evaluation.text(std::move(text));
}

class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::string shown() const override { return "<Cycler>"; }
  std::string_view type() const override { return "Cycler"; }
  Value attribute(Evaluation& evaluation, std::string_view name) const override;
  void reset() { position_ = 0; }
  Value next() {
    Value value = items_[position_];
    position_ = (position_ + 1) % items_.size();
    return value;
  }
  const Value& current() const { return items_[position_]; }

 private:
  std::vector<Value> items_;
  std::size_t position_ = 0;
};

Value cycle_next(Evaluation&, const Value& subject, const Given&) {
  return dynamic_cast<Cycler&>(*subject.object()).next();
}
Value cycle_reset(Evaluation&, const Value& subject, const Given&) {
  dynamic_cast<Cycler&>(*subject.object()).reset();
  return None{};
}
constexpr NativeFunction cycler_methods[] = {{"next", cycle_next}, {"reset", cycle_reset}};

Value Cycler::attribute(Evaluation& evaluation, std::string_view name) const {
  if (name == "current") return current();
  const NativeFunction* method = find(cycler_methods, name);
  if (method == nullptr) return Object::attribute(evaluation, name);
  return bound_method(*method, std::const_pointer_cast<Object>(std::shared_ptr<const Object>(shared_from_this())));
}

Value cycler(Evaluation& evaluation, const Value&, const Given& given) {
  if (given.all().positional.empty()) return evaluation.fail("'cycler' needs something to go through");
  return std::shared_ptr<Object>(std::make_shared<Cycler>(given.all().positional));
}

// Nothing at its first call, then a separator.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string shown() const override { return "<Joiner>"; }
  std::string_view type() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  Value call(Evaluation&, const Arguments&) override {
    return std::exchange(used_, true) ? separator_ : Value(std::string());
  }

 private:
  Value separator_;
  bool used_ = false;
};

Value joiner(Evaluation&, const Value&, const Given& given) {
  return std::shared_ptr<Object>(std::make_shared<Joiner>(given.has(0) ? *given.at(0) : Value(std::string(", "))));
}

constexpr NativeFunction global_function_table[] = {
    {"range", range, {}, 0, true},
    {"dict", dict, {}, 0, true},
    {"namespace", make_namespace, {}, 0, true},
    {"raise_exception", raise_exception, {"message"}, 1},
    {"strftime_now", strftime_now, {"format"}, 1},
    {"cycler", cycler, {}, 0, true},
    {"joiner", joiner, {"sep"}},
};

}  // namespace

NativeTable global_functions() { return global_function_table; }

}  // namespace muster::chat

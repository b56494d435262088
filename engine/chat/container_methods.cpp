// The methods of lists and mappings that leave them as they are.
#include <fmt/format.h>

#include "chat/arguments.hpp"

namespace muster::chat {
namespace {

Value count(Evaluation& evaluation, const Value& subject, const Given& given) {
  Integer times = 0;
  for (const Value& element : evaluation.iterate(subject)) times += evaluation.equal(element, *given.at(0)) ? 1 : 0;
  return times;
}

Value index(Evaluation& evaluation, const Value& subject, const Given& given) {
  const auto elements = evaluation.iterate(subject);
  for (std::size_t i = 0; i < elements.size(); ++i)
    if (evaluation.equal(elements[i], *given.at(0))) return static_cast<Integer>(i);
  return evaluation.fail("'index' of an element that is not there");
}

constexpr NativeFunction lists[] = {
    {"count", count, {"value"}, 1},
    {"index", index, {"value"}, 1},
};

Value get(Evaluation& evaluation, const Value& subject, const Given& given) {
  if (!is_hashable(*given.at(0))) return evaluation.fail(fmt::format("{} as a key", type_name(*given.at(0))));
  if (const Value* held = subject.dictionary()->find(*given.at(0))) return *held;
  return given.has(1) ? *given.at(1) : Value(None{});
}

Value items(Evaluation& evaluation, const Value& subject, const Given&) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : subject.dictionary()->entries())
    pairs.push_back(evaluation.list({key, value}, Sequence::Kind::tuple));
  return evaluation.list(std::move(pairs), Sequence::Kind::items);
}

Value keys(Evaluation& evaluation, const Value& subject, const Given&) {
  return evaluation.list(evaluation.iterate(subject), Sequence::Kind::keys);
}

Value values(Evaluation& evaluation, const Value& subject, const Given&) {
  std::vector<Value> held;
  for (const auto& entry : subject.dictionary()->entries()) held.push_back(entry.second);
  return evaluation.list(std::move(held), Sequence::Kind::values);
}

constexpr NativeFunction dictionaries[] = {
    {"get", get, {"key", "default"}, 1},
    {"items", items},
    {"keys", keys},
    {"values", values},
};

}  // namespace

NativeTable list_methods() { return lists; }
NativeTable dictionary_methods() { return dictionaries; }

}  // namespace muster::chat

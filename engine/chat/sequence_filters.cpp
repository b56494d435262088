#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "chat/arguments.hpp"
#include "chat/attributes.hpp"
#include "chat/text_format.hpp"

namespace muster::chat {
namespace {

Value length(Evaluation& evaluation, const Value& subject, const Given&) {
  const auto count = evaluation.length(subject);
  if (!count) return evaluation.fail(fmt::format("{} has no length", type_name(subject)));
  return static_cast<Integer>(*count);
}

Value default_value(Evaluation&, const Value& subject, const Given& given) {
  if (subject.is_undefined() || (truth_at(given, 1, false) && !is_true(subject)))
    return given.has(0) ? *given.at(0) : Value(std::string());
  return subject;
}

Value join_filter(Evaluation& evaluation, const Value& subject, const Given& given) {
  const AttributePath path(given.at(1));
  const std::string separator = given.has(0) ? evaluation.to_text(*given.at(0)) : "";
  std::string joined;
  bool first = true;
  for (const Value& element : evaluation.iterate(subject)) {
    const std::string text = evaluation.to_text(path.follow(evaluation, element));
    if (!evaluation.charge_bytes(text.size() + separator.size())) return {};
    if (!first) joined += separator;
    first = false;
    joined += text;
  }
  return evaluation.text(std::move(joined));
}

Value first(Evaluation& evaluation, const Value& subject, const Given&) {
  if (Sequence* sequence = subject.sequence(); sequence && sequence->kind == Sequence::Kind::generator) {
    if (sequence->consumed == sequence->elements.size()) return undefined("there is no first element");
    return sequence->elements[sequence->consumed++];
  }
  const auto elements = evaluation.iterate(subject);
  return elements.empty() ? undefined("there is no first element") : elements.front();
}

bool is_generator(const Value& value) {
  return value.sequence() && value.sequence()->kind == Sequence::Kind::generator;
}

Value last(Evaluation& evaluation, const Value& subject, const Given&) {
  if (is_generator(subject)) return evaluation.fail("'last' of a generator: make a list of it first");
  const auto elements = evaluation.iterate(subject);
  return elements.empty() ? undefined("there is no last element") : elements.back();
}

Value to_list(Evaluation& evaluation, const Value& subject, const Given&) {
  return evaluation.list(evaluation.iterate(subject));
}

Value generator(Evaluation& evaluation, std::vector<Value> elements) {
  return evaluation.list(std::move(elements), Sequence::Kind::generator);
}

Value items(Evaluation& evaluation, const Value& subject, const Given&) {
  if (subject.is_undefined()) return generator(evaluation, {});
  if (subject.dictionary() == nullptr) return evaluation.fail(fmt::format("'items' of {}", type_name(subject)));
  std::vector<Value> pairs;
  for (const auto& [key, value] : subject.dictionary()->entries())
    pairs.push_back(evaluation.list({key, value}, Sequence::Kind::tuple));
  return generator(evaluation, std::move(pairs));
}

// A filter that is called for every element: map's first argument and what follows it.
Value map(Evaluation& evaluation, const Value& subject, const Given& given) {
  const Arguments& arguments = given.all();
  const Value *attribute = nullptr, *otherwise = nullptr;
  for (const auto& [name, value] : arguments.named) {
    if (name == "attribute") attribute = &value;
    if (name == "default") otherwise = &value;
  }
  const bool by_attribute = arguments.positional.empty() && attribute != nullptr;
  if (!by_attribute && (arguments.positional.empty() || !arguments.positional.front().text()))
    return evaluation.fail("'map' needs the name of a filter, or attribute=");
  const NativeFunction* filter = by_attribute ? nullptr : find_filter(*arguments.positional.front().text());
  if (!by_attribute && filter == nullptr)
    return evaluation.fail(fmt::format("there is no filter '{}'", *arguments.positional.front().text()));
  Arguments rest = arguments;
  if (!by_attribute) rest.positional.erase(rest.positional.begin());
  const AttributePath path(attribute);
  std::vector<Value> results;
  if (!is_true(subject)) return generator(evaluation, {});
  for (const Value& element : evaluation.iterate(subject)) {
    if (evaluation.failed()) return {};
    results.push_back(by_attribute ? path.follow(evaluation, element, otherwise)
                                   : invoke(evaluation, *filter, element, rest));
  }
  return generator(evaluation, std::move(results));
}

// The elements for which a test holds, or does not; by_attribute: the test of an attribute.
template <bool keep, bool by_attribute>
Value selected(Evaluation& evaluation, const Value& subject, const Given& given) {
  Arguments rest = given.all();
  const auto take_first = [&] {
    Value taken = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return taken;
  };
  if (by_attribute && rest.positional.empty()) return evaluation.fail("the name of an attribute is missing");
  const Value attribute = by_attribute ? take_first() : Value(None{});
  const AttributePath path(&attribute);
  const NativeFunction* test = nullptr;
  if (!rest.positional.empty()) {
    const Value name = take_first();
    test = name.text() ? find_test(*name.text()) : nullptr;
    if (test == nullptr) return evaluation.fail(fmt::format("there is no test '{}'", evaluation.to_text(name)));
  }
  std::vector<Value> results;
  if (!is_true(subject)) return generator(evaluation, {});
  for (const Value& element : evaluation.iterate(subject)) {
    const Value examined = path.follow(evaluation, element);
    const bool holds = is_true(test ? invoke(evaluation, *test, examined, rest) : examined);
    if (evaluation.failed()) return {};
    if (holds == keep) results.push_back(element);
  }
  return generator(evaluation, std::move(results));
}

// Elements with what they are sorted by. Comparing can fail, and then the order may be inconsistent: a merge sort only
// ever reads what it was given.
using Keyed = std::pair<Value, Value>;
void sort_by_key(Evaluation& evaluation, std::vector<Keyed>& elements, bool reverse) {
  if (elements.size() < 2 || evaluation.failed()) return;
  const auto middle = elements.begin() + static_cast<std::ptrdiff_t>(elements.size() / 2);
  std::vector<Keyed> left(elements.begin(), middle), right(middle, elements.end());
  sort_by_key(evaluation, left, reverse);
  sort_by_key(evaluation, right, reverse);
  std::size_t i = 0, j = 0;
  for (Keyed& place : elements) {
    const bool from_right =
        i == left.size() || (j < right.size() && (reverse ? evaluation.less(left[i].first, right[j].first)
                                                          : evaluation.less(right[j].first, left[i].first)));
    place = from_right ? right[j++] : left[i++];
  }
}

std::vector<Value> values_of(std::vector<Keyed> keyed) {
  std::vector<Value> values;
  for (Keyed& entry : keyed) values.push_back(std::move(entry.second));
  return values;
}

Value sort(Evaluation& evaluation, const Value& subject, const Given& given) {
  const bool reverse = truth_at(given, 0, false), sensitive = truth_at(given, 1, false);
  std::vector<AttributePath> paths;
  if (given.has(2) && given.at(2)->text())
    for (const std::string& part : split(*given.at(2)->text(), ',')) {
      const Value name(part);
      paths.emplace_back(&name);
    }
  else
    paths.emplace_back(given.at(2));
  std::vector<Keyed> keyed;
  for (const Value& element : evaluation.iterate(subject)) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      const Value part = path.follow(evaluation, element);
      key.push_back(sensitive ? part : without_case(part));
    }
    keyed.emplace_back(evaluation.list(std::move(key)), element);
  }
  sort_by_key(evaluation, keyed, reverse);
  return evaluation.list(values_of(std::move(keyed)));
}

Value dictsort(Evaluation& evaluation, const Value& subject, const Given& given) {
  if (subject.dictionary() == nullptr)
    return evaluation.fail(subject.undefined() ? reason_of(subject)
                                               : fmt::format("'dictsort' of {}", type_name(subject)));
  const bool sensitive = truth_at(given, 0, false), reverse = truth_at(given, 2, false);
  const std::string by = text_at(evaluation, given, 1, "key");
  if (by != "key" && by != "value") return evaluation.fail("'dictsort' goes by key or value");
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : subject.dictionary()->entries()) {
    const Value& part = by == "key" ? key : value;
    keyed.emplace_back(sensitive ? part : without_case(part), evaluation.list({key, value}, Sequence::Kind::tuple));
  }
  sort_by_key(evaluation, keyed, reverse);
  return evaluation.list(values_of(std::move(keyed)));
}

Value unique(Evaluation& evaluation, const Value& subject, const Given& given) {
  const bool sensitive = truth_at(given, 0, false);
  const AttributePath path(given.at(1));
  Dictionary seen;
  std::vector<Value> results;
  for (const Value& element : evaluation.iterate(subject)) {
    const Value part = path.follow(evaluation, element);
    const Value key = sensitive ? part : without_case(part);
    if (!is_hashable(key)) return evaluation.fail(fmt::format("'unique' among {}", type_name(key)));
    if (!evaluation.charge(key.is_text() ? 1 : seen.entries().size())) return {};
    if (seen.find(key) != nullptr) continue;
    seen.assign(key, Value(true));
    results.push_back(element);
  }
  return generator(evaluation, std::move(results));
}

// The smallest or the largest.
template <bool largest>
Value extreme(Evaluation& evaluation, const Value& subject, const Given& given) {
  const bool sensitive = truth_at(given, 0, false);
  const AttributePath path(given.at(1));
  std::optional<Keyed> best;
  for (const Value& element : evaluation.iterate(subject)) {
    const Value part = path.follow(evaluation, element);
    Value key = sensitive ? part : without_case(part);
    const bool better = !best || (largest ? evaluation.less(best->first, key) : evaluation.less(key, best->first));
    if (better) best = Keyed(std::move(key), element);
  }
  return best ? best->second : undefined("there is no smallest or largest element of nothing");
}

Value sum(Evaluation& evaluation, const Value& subject, const Given& given) {
  const AttributePath path(given.at(0));
  Value total = given.has(1) ? *given.at(1) : Value(Integer{0});
  if (total.text()) return evaluation.fail("'sum' of texts: use join");
  for (const Value& element : evaluation.iterate(subject))
    total = evaluation.binary(BinaryOperator::add, total, path.follow(evaluation, element));
  return total;
}

Value reverse(Evaluation& evaluation, const Value& subject, const Given&) {
  if (subject.text()) return slice_of(evaluation, subject, std::nullopt, std::nullopt, Integer{-1});
  auto elements = evaluation.iterate(subject);
  std::ranges::reverse(elements);
  return is_generator(subject) ? evaluation.list(std::move(elements)) : generator(evaluation, std::move(elements));
}

Value batch(Evaluation& evaluation, const Value& subject, const Given& given) {
  const Integer size = integer_at(evaluation, given, 0, 1);
  std::vector<Value> rows, row;
  const auto flush = [&] { rows.push_back(evaluation.list(std::exchange(row, {}))); };
  for (const Value& element : evaluation.iterate(subject)) {
    if (static_cast<Integer>(row.size()) == size) flush();
    row.push_back(element);
  }
  if (!row.empty()) {
    if (size > 1'000'000) return evaluation.fail("'batch' of more than a million");
    while (is_given(given, 1) && static_cast<Integer>(row.size()) < size) row.push_back(*given.at(1));
    flush();
  }
  return generator(evaluation, std::move(rows));
}

Value slices(Evaluation& evaluation, const Value& subject, const Given& given) {
  const Integer count = integer_at(evaluation, given, 0, 1);
  if (count < 1 || count > 100'000) return evaluation.fail("'slice' into that many parts");
  const auto elements = evaluation.iterate(subject);
  const auto parts = static_cast<std::size_t>(count);
  const std::size_t size = elements.size() / parts, larger = elements.size() % parts;
  std::vector<Value> rows;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t end = begin + size + (i < larger ? 1 : 0);
    std::vector<Value> row(elements.begin() + static_cast<std::ptrdiff_t>(begin),
                           elements.begin() + static_cast<std::ptrdiff_t>(end));
    if (is_given(given, 1) && i >= larger) row.push_back(*given.at(1));
    rows.push_back(evaluation.list(std::move(row)));
    begin = end;
  }
  return generator(evaluation, std::move(rows));
}

Value attribute(Evaluation& evaluation, const Value& subject, const Given& given) {
  if (subject.dictionary()) return undefined("'attr' reads no keys of mappings");
  return evaluation.attribute(subject, text_at(evaluation, given, 0, ""));
}

Value group_by(Evaluation& evaluation, const Value& subject, const Given& given) {
  const AttributePath path(given.at(0));
  const bool sensitive = truth_at(given, 2, false);
  const auto key_of = [&](const Value& element) { return path.follow(evaluation, element, given.at(1)); };
  std::vector<Keyed> keyed;
  for (const Value& element : evaluation.iterate(subject)) {
    const Value key = key_of(element);
    keyed.emplace_back(sensitive ? key : without_case(key), element);
  }
  sort_by_key(evaluation, keyed, false);
  std::vector<Value> groups;
  for (std::size_t begin = 0, end = 0; begin < keyed.size() && !evaluation.failed(); begin = end) {
    std::vector<Value> members;
    for (; end < keyed.size() && evaluation.equal(keyed[begin].first, keyed[end].first); ++end)
      members.push_back(keyed[end].second);
    if (members.empty()) break;  // a value that does not equal itself
    const Value key = key_of(members.front());
    groups.push_back(evaluation.list({key, evaluation.list(std::move(members))}, Sequence::Kind::tuple));
  }
  return evaluation.list(std::move(groups));
}

constexpr NativeFunction sequence_filter_table[] = {
    {"length", length},
    {"count", length},
    {"default", default_value, {"default_value", "boolean"}},
    {"d", default_value, {"default_value", "boolean"}},
    {"join", join_filter, {"d", "attribute"}},
    {"first", first},
    {"last", last},
    {"list", to_list},
    {"items", items},
    {"map", map, {}, 0, true},
    {"select", selected<true, false>, {}, 0, true},
    {"reject", selected<false, false>, {}, 0, true},
    {"selectattr", selected<true, true>, {}, 0, true},
    {"rejectattr", selected<false, true>, {}, 0, true},
    {"sort", sort, {"reverse", "case_sensitive", "attribute"}},
    {"dictsort", dictsort, {"case_sensitive", "by", "reverse"}},
    {"unique", unique, {"case_sensitive", "attribute"}},
    {"min", extreme<false>, {"case_sensitive", "attribute"}},
    {"max", extreme<true>, {"case_sensitive", "attribute"}},
    {"sum", sum, {"attribute", "start"}},
    {"reverse", reverse},
    {"batch", batch, {"linecount", "fill_with"}, 1},
    {"slice", slices, {"slices", "fill_with"}, 1},
    {"groupby", group_by, {"attribute", "default", "case_sensitive"}, 1},
    {"attr", attribute, {"name"}, 1},
};

}  // namespace

NativeTable sequence_filters() { return sequence_filter_table; }

}  // namespace muster::chat

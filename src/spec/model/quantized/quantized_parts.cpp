#include "spec/model/quantized/quantized_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.hpp"

namespace muster::spec {
namespace {

template <class Sizes>
std::string sizes_text(const Sizes& sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

}  // namespace

const StoredTensor* QuantizedParts::find(std::string_view word) const {
  const auto found = held_.find(matrix_.part(word));
  return found == held_.end() ? nullptr : found->second;
}

void QuantizedParts::use(const StoredTensor& tensor) {
  if (used_.insert(tensor.name).second) matrix_.stored_bytes += tensor.end - tensor.begin;
}

const StoredTensor* QuantizedParts::require(std::string_view word) {
  const StoredTensor* tensor = find(word);
  if (tensor == nullptr)
    problems_.push_back(fmt::format("{} is missing", matrix_.part(word)));
  else
    use(*tensor);
  return tensor;
}

void QuantizedParts::require(std::string_view word, Types types, std::initializer_list<Sizes> shapes) {
  const StoredTensor* tensor = require(word);
  if (tensor == nullptr) return;
  if (std::ranges::find(types, tensor->type) == types.end()) {
    std::vector<std::string> names;
    for (const ElementType type : types) names.emplace_back(name(type));
    note(word, fmt::format("is {}, and must be {}", name(tensor->type), join(names, " or ")));
  }
  if (std::ranges::any_of(shapes, [&](const Sizes& sizes) { return std::ranges::equal(tensor->dimensions.span(), sizes); }))
    return;
  std::vector<std::string> accepted;
  for (const Sizes& sizes : shapes) accepted.push_back(sizes_text(sizes));
  note(word, fmt::format("is {}, and must be {}", sizes_text(tensor->dimensions.span()), join(accepted, " or ")));
}

void QuantizedParts::ignore(std::string_view word) {
  if (const StoredTensor* tensor = find(word)) use(*tensor);
}

void QuantizedParts::share_scales(std::int64_t rows, std::int64_t columns) {
  matrix_.run_rows = rows;
  matrix_.run_columns = columns;
}

void QuantizedParts::note(std::string_view word, std::string what) {
  problems_.push_back(fmt::format("{} {}", matrix_.part(word), what));
}

void QuantizedParts::divides(std::string_view what, std::int64_t part, std::string_view whole, std::int64_t size) {
  if (size % part != 0)
    problems_.push_back(fmt::format("{} has {} {}, which {} of {} do not divide", matrix_.name, size, whole, what, part));
}

}  // namespace muster::spec

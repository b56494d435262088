#include "spec/model/tensor_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

namespace muster::spec {
namespace {

constexpr std::size_t most_shown = 8;

std::string shape_text(const Dimensions& dimensions) { return fmt::format("[{}]", fmt::join(dimensions.span(), ", ")); }

}  // namespace

Error tensors_do_not_fit(const std::vector<std::string>& problems, std::string_view source) {
  std::string what = fmt::format("{}: the checkpoint does not fit its configuration:", source);
  for (std::size_t i = 0; i < problems.size() && i < most_shown; ++i) what += fmt::format("\n  {}", problems[i]);
  if (problems.size() > most_shown) what += fmt::format("\n  and {} more", problems.size() - most_shown);
  return {Error::Kind::bad_input, what, "check that both are of the same model, and that no file is missing"};
}

Result<std::vector<std::string>> compare_tensors(const std::vector<NamedSizes>& wanted,
                                                 const std::vector<NamedSizes>& held, std::string_view source) {
  std::unordered_map<std::string_view, const Dimensions*> left;
  for (const NamedSizes& tensor : held) left.emplace(tensor.name, &tensor.dimensions);
  std::vector<std::string> problems;
  for (const NamedSizes& tensor : wanted) {
    const auto found = left.find(tensor.name);
    if (found == left.end()) {
      problems.push_back(fmt::format("{} {} is missing", tensor.name, shape_text(tensor.dimensions)));
      continue;
    }
    if (*found->second != tensor.dimensions)
      problems.push_back(fmt::format("{} is {}, and the configuration asks for {}", tensor.name, shape_text(*found->second),
                                     shape_text(tensor.dimensions)));
    left.erase(found);
  }
  if (!problems.empty()) return tensors_do_not_fit(problems, source);
  std::vector<std::string> extra;
  for (const NamedSizes& tensor : held)
    if (left.contains(tensor.name)) extra.push_back(tensor.name);
  return extra;
}

}  // namespace muster::spec

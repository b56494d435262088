#include "spec/model/value_head_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "spec/model/safetensors_header.hpp"
#include "spec/model/tensor_check.hpp"

namespace muster::spec {
namespace {

// What a model lacks where its head for values is in a file.
std::vector<NamedSizes> sizes_of_head(const ModelDescription& model) {
  const ModelDescription whole = with_score_head(model, {ScoreUse::values, 1});
  std::vector<NamedSizes> sizes;
  for (std::size_t i = 0; i < whole.shape.tensors.size(); ++i)
    if (whole.shape.tensors[i].role == TensorRole::score)
      sizes.push_back({whole.shape.path(TensorId{i}), whole.shape.tensors[i].dimensions});
  return sizes;
}

}  // namespace

Result<std::optional<std::filesystem::path>> find_value_head(const std::vector<std::filesystem::path>& folders,
                                                             const ModelDescription& model) {
  for (const std::filesystem::path& folder : folders) {
    const std::filesystem::path file = folder / value_head_file;
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) continue;
    const auto header = read_safetensors_header(file);
    if (!header) return header.error();
    for (const NamedSizes& wanted : sizes_of_head(model)) {
      const auto found = std::ranges::find(header->tensors, wanted.name, &StoredTensor::name);
      if (found == header->tensors.end() || found->dimensions != wanted.dimensions)
        return Error{Error::Kind::bad_input,
                     fmt::format("{} has no {} for rows of {} numbers", file.string(), wanted.name, model.config.hidden),
                     "put the file there that belongs to the model, or remove it: the head then begins from random numbers"};
    }
    return std::optional(file);
  }
  return std::optional<std::filesystem::path>();
}

}  // namespace muster::spec

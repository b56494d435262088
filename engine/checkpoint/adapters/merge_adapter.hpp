// A model with an adapter in its weights: what PEFT's merge_and_unload makes of the two.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/byte_count.hpp"
#include "base/result.hpp"
#include "spec/element_type.hpp"
#include "spec/model/model_search.hpp"

namespace muster::checkpoint {

struct MergeRequest {
  std::string model;              // the base, as the user calls it; it is only read
  std::filesystem::path adapter;  // as PEFT keeps it
  std::filesystem::path folder;   // must not exist
  std::optional<spec::ElementType> dtype;  // absent: the base's own
  int threads = 1;
  std::function<void(ByteCount done, ByteCount total)> progress;  // may be empty
};

struct MergedModel {
  spec::ElementType dtype = spec::ElementType::float32;
  std::size_t adapted = 0;  // weights that are not the base's
  ByteCount bytes;          // of the tensors written
};

// A Hugging Face folder: W + scale · B·A, of DoRA with each output's row brought to its magnitude, computed in float32
// and rounded once, for each adapted weight; what the adapter has as a whole as it has it; everything else as the base
// has it. The folder appears whole or not at all.
Result<MergedModel> merge_adapter(const MergeRequest& request, const spec::ModelSearch& search);

}  // namespace muster::checkpoint

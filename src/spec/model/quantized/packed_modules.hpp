// Which weights of a model are held in 8 or 4 bits where that is asked for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/model/model_shape.hpp"
#include "spec/weight_packing.hpp"

namespace muster::spec {

// The weights of the linear layers within the blocks, in the order of the model: never those of the head, of embeddings
// or norms. skipped: modules that stay as they are, by transformers' rules for llm_int8_skip_modules: a regular expression
// for a path, or for its beginning up to a dot, or the end of a path. Refused: what is not a regular expression.
Result<std::vector<TensorId>> packable_weights(const ModelShape& shape, const std::vector<std::string>& skipped);

// The same, to be held in memory. Refused, too: to skip some of the layers that read the same input.
Result<std::vector<TensorId>> packed_weights(const ModelShape& shape, const std::vector<std::string>& skipped);

// The weights of linear layers that read the same input, which are held as one: of queries, keys and values, and of the gate
// and what it opens.
std::vector<std::vector<TensorId>> read_together(const ModelShape& shape);

// By the names of weights.
using PackedByName = std::map<std::string, WeightPacking, std::less<>>;

// What can be computed with as codes, among what a checkpoint has in codes: of weights that are held as one, all that have
// the same codes, or none. Scales that are quantised themselves are no difference.
void leave_out_parted_groups(const ModelShape& shape, PackedByName& packed);

}  // namespace muster::spec

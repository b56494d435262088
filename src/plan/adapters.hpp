// Low-rank adapters beside a model's weights, as the planner counts them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "spec/adapter_options.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::plan {

// The ranks beside the products of a block; 0: none.
struct AdapterRanks {
  std::int64_t query = 0, key = 0, value = 0, output = 0;
  std::int64_t gate = 0, up = 0, down = 0;

  std::int64_t joined() const { return std::max({query, key, value}); }  // the largest of what reads the first norm
  std::int64_t feed() const { return std::max(gate, up); }               // likewise the second
  std::int64_t largest() const { return std::max({joined(), output, feed(), down}); }
  bool operator==(const AdapterRanks&) const = default;
};

// Beside the products of one block, for a step.
struct AdaptedBlock {
  AdapterRanks ranks;
  double dropout = 0;
  bool decomposed = false;          // DoRA
  std::int64_t whole_product = 0;   // elements of the largest joined matrix that is trained as a whole
  bool whole_head = false;          // the head is trained as a whole
  bool operator==(const AdaptedBlock&) const = default;
};

struct Adapters {
  AdaptedBlock block;                   // the largest rank of each product over all blocks
  std::int64_t parameters = 0;          // of all adapters
  std::int64_t of_block = 0;            // of those in the block that has most
  std::int64_t uncoded = 0;             // those of them that have no 8-bit states with any optimizer
  std::int64_t before = 0, after = 0;   // of those outside of blocks: before them, and after them
  std::vector<std::int64_t> by_tensor;  // of the adapter beside each tensor of the model
  std::vector<bool> whole;              // whether it has the tensor as a whole, in the model's place
};

// What these options train: adapters, with DoRA their magnitudes, and the saved modules as a whole. Refused as by
// spec::adapted_modules.
Result<Adapters> adapters_beside(const spec::ModelShape& shape, const spec::AdapterOptions& options);

// Others beside the same model, which rows of a batch choose from: their products are computed one after another. None
// of them has whole modules.
void add(Adapters& adapters, const Adapters& others);

}  // namespace muster::plan

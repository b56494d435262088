// What accelerate's and transformers' size tables say about each module and tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "plan/compat_map.hpp"
#include "plan/model_entry.hpp"
#include "plan/wide.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::plan {

// Bytes in eighths: accelerate counts a bool as 1/8 byte and an int4 as 1/2, and compares such sums exactly.
using Eighths = std::int64_t;

// Names that are not in the original's table (second names of a tied tensor, modules without tensors) have size 0,
// which is how the original reads them.
struct CompatSizes {
  std::vector<Eighths> modules;  // of everything in and below each module
  std::vector<Eighths> tensors;
  std::vector<bool> holds_parameter;  // per module: a parameter that counts lies in or below it
  std::vector<bool> holds_tensor;     // per module: a tensor that counts does
  std::vector<bool> is_whole;         // per module: of a class that is never split

  Eighths total() const { return modules.front(); }
  Eighths of(Entry entry) const {
    return number(entry) < modules.size() ? modules[number(entry)] : tensors[number(entry) - modules.size()];
  }
};

// bad_input: a size per element that is not a multiple of 1/8, or a name in special_elements that the model lacks.
Result<CompatSizes> compat_sizes(const spec::ModelShape& shape, const CompatRequest& request);

constexpr bool is_parameter(const spec::TensorShape& tensor) { return tensor.kind == spec::TensorKind::parameter; }

// The tensor's place in the size table: false for second names of a tensor that came earlier.
bool counts(const spec::ModelShape& shape, const spec::TensorShape& tensor);

// The module's own parameters or own buffers; if one tensor has two names in one module, only the first.
std::vector<spec::TensorId> own_tensors(const spec::ModelShape& shape, spec::ModuleId module, bool parameters);

constexpr double in_bytes(Eighths size) {
  return static_cast<double>(size / 8) + static_cast<double>(size % 8) / 8;  // exact where the sum of both is
}

// A budget in sixteenths of a byte, so that comparing it with any count of eighths has the result that the original's
// comparison with a floating-point number has: a budget between two eighths becomes the odd number between them.
Wide in_sixteenths(const Budget& budget);

}  // namespace muster::plan

// Device maps as accelerate and transformers make them, key for key, oddities included (docs/device-maps.md lists
// them).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/device_map.hpp"

namespace muster::plan {

// Whose rules. accelerate: get_balanced_memory and infer_auto_device_map of accelerate 1.15. transformers: what
// from_pretrained(device_map=…) of transformers 5.22 does.
enum class CompatRules { accelerate, transformers };

// Inputs besides the model and the budgets: the arguments of the originals.
struct CompatRequest {
  CompatRules rules = CompatRules::accelerate;
  // Bytes per element of the requested dtype: 4, 2, 1 (int8), 0.5 (int4). Larger floating-point tensors count that
  // much. Absent: as they are. accelerate's rules only; transformers builds the model in its dtype before it plans.
  std::optional<double> element_bytes;
  std::map<std::string, double> special_elements;  // bytes per element of single tensors, by path
  std::vector<std::string> whole_classes;          // no_split_module_classes
  bool clean = true;                               // clean_result: modules that share a place become one entry
  bool fallback_allocation = false;                // accelerate's rules only
  bool limits_given =
      true;  // max_memory is the user's: when not, one GPU alone gets 90 %, and so does transformers' cpu
};

// get_balanced_memory: the budgets that spread the model evenly, for "auto", "balanced" and (low_zero)
// "balanced_low_0". Where the original raises an error: Error::refused that names it.
Result<std::vector<Budget>> balanced_budgets(const spec::ModelShape& shape, const CompatRequest& request,
                                             std::vector<Budget> budgets, bool low_zero);

// adjust_max_memory of transformers' quantisers for 8 and 4 bits (bitsandbytes): 90 % of each, for what loading takes.
std::vector<Budget> budgets_of_packed(std::vector<Budget> budgets);

// get_max_memory: the budgets for "sequential".
Result<std::vector<Budget>> sequential_budgets(const CompatRequest& request, std::vector<Budget> budgets);

// infer_auto_device_map with budgets of one of the two functions above. Entries are in the order of placement.
Result<DeviceMap> compat_map(const spec::ModelShape& shape, const CompatRequest& request,
                             const std::vector<Budget>& budgets);

}  // namespace muster::plan

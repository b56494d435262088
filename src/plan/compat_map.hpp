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

// Bits that a tensor of a type takes when it is loaded as another: accelerate's dtype argument. Absent: as it is.
struct CompatRequest {
  CompatRules rules = CompatRules::accelerate;
  std::optional<double> element_bytes;             // of the asked dtype: 4, 2, 1 (int8), 0.5 (int4)
  std::map<std::string, double> special_elements;  // bytes per element of single tensors, by path
  std::vector<std::string> whole_classes;          // no_split_module_classes
  bool clean = true;
  bool fallback_allocation = false;
  std::optional<bool> limits_given;  // whether the user gave max_memory: one GPU alone gets 90 % when not
};

// get_balanced_memory: the budgets that spread the model evenly. Where the original raises an error, an Error that
// names it.
Result<std::vector<Budget>> balanced_budgets(const spec::ModelShape& shape, const CompatRequest& request,
                                             std::vector<Budget> budgets, bool low_zero);

// infer_auto_device_map.
Result<DeviceMap> compat_map(const spec::ModelShape& shape, const CompatRequest& request,
                             const std::vector<Budget>& budgets);

}  // namespace muster::plan

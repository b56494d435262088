// Which modules of a model get adapters, by PEFT's rules, and the tensors that these have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/adapter_options.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::spec {

struct AdaptedModule {
  TensorId weight{};
  std::string path;  // of the module: "model.layers.0.self_attn.q_proj"
  std::int64_t inputs = 0, outputs = 0;
  std::int64_t rank = 0;
  double scale = 0;

  bool operator==(const AdaptedModule&) const = default;
};

// In the order of the model's modules. Targets that are names choose the modules whose path is that name or ends with
// it after a dot; a single target that is no name (see is_module_name) is a pattern for whole paths; "all-linear" and no
// target at all are every linear layer but the head. Excluded ones the same. What lies in a saved module gets no adapter.
// Refused: targets that match nothing, with the names there are; a module that is no linear layer; a rank below 1.
Result<std::vector<AdaptedModule>> adapted_modules(const ModelShape& shape, const AdapterOptions& options);

// The parameters of the saved modules, in the order of the model: those of every module whose path ends with one of the
// names. Refused: a name that no module has; some, but not all, of the layers that read the same input.
Result<std::vector<TensorId>> saved_parameters(const ModelShape& shape, const AdapterOptions& options);

// Whether the model has what model.lora_target_modules and model.modules_to_save ask for; a refusal names the setting.
Result<void> check_asked_modules(const ModelShape& shape, const AdapterOptions& asked);

// Whether one of two tied tensors lies in a saved module. As PEFT has it, they are then no longer one: what is saved is
// trained by itself, and the other keeps the numbers of the base.
bool parts_tied(const ModelShape& shape, const AdapterOptions& options);

// The weight of a linear layer, whichever way it is stored; nothing for modules of other kinds.
std::optional<TensorId> linear_weight(const ModelShape& shape, ModuleId module);

// muster's names of an adapter's tensors.
std::string lora_a_name(std::string_view path);          // [rank, inputs]
std::string lora_b_name(std::string_view path);          // [outputs, rank]
std::string lora_magnitude_name(std::string_view path);  // [outputs], of DoRA

struct AdapterTensor {
  std::string name;
  Dimensions dimensions;
};

// Every tensor of an adapter: module by module A, B and with DoRA the magnitudes, then the saved parameters under their
// own names.
std::vector<AdapterTensor> adapter_tensors(const ModelShape& shape, const AdapterOptions& options,
                                           const std::vector<AdaptedModule>& modules,
                                           const std::vector<TensorId>& saved);

// The shortest targets that choose these modules and no others: names within their parents where these are enough, else
// whole paths. For files that name their targets.
std::vector<std::string> target_names(const ModelShape& shape, const AdapterOptions& options,
                                      const std::vector<AdaptedModule>& modules);

}  // namespace muster::spec

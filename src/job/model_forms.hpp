// In which form a job has the weights of its model, and which low-rank adapters beside them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/plan.hpp"
#include "spec/adapter_options.hpp"
#include "spec/model/model_shape.hpp"
#include "spec/run_spec.hpp"
#include "wire/model_choice.hpp"

namespace muster::job {

// model.path may say more than a model: it may be the folder of an adapter, which names its model, or end with -8bit or
// -4bit. From here on path is the model alone, and the rest is in the settings.
Result<void> take_model_name(spec::ModelSpec& model);

// In which form the settings ask for the weights; absent: as they are.
Result<std::optional<spec::WeightOptions>> asked_form(const spec::ModelSpec& model, const spec::ModelShape& shape);

// What the settings say of the model; dtype: what it is computed in.
wire::ModelChoice model_choice(const spec::RunSpec& settings, spec::ElementType dtype);

// For a job that takes at most one.
std::optional<std::string> only_adapter(const spec::ModelSpec& model);
Result<void> check_one_adapter(const spec::ModelSpec& model);

// What the folders of model.adapters say. Refused: those that are not for this model, and one with whole modules beside
// others.
Result<std::vector<spec::AdapterOptions>> given_adapters(const spec::ModelSpec& model, const spec::ModelShape& shape);

// What is trained: the given one, else what model.use_lora and its settings ask for; absent: the weights themselves.
Result<std::optional<spec::AdapterOptions>> trained_adapters(const spec::ModelSpec& model, const spec::ModelShape& shape);

// The plan counts them, all at once, over the model as they see it.
Result<void> count_adapters(plan::Question& question, std::span<const spec::AdapterOptions> adapters);

// Whether an adapter takes the place of whole modules, so that no prompt can do without it.
bool replaces_modules(const spec::ModelSpec& model);

// What prompts call them: the last part of each folder's path. Refused: two of one name.
Result<std::vector<std::string>> adapter_words(const std::vector<std::string>& folders);

}  // namespace muster::job

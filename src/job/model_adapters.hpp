// Which low-rank adapters a job has beside its model's weights.
#pragma once

#include <optional>

#include "base/result.hpp"
#include "plan/plan.hpp"
#include "spec/adapter_options.hpp"
#include "spec/model/model_shape.hpp"
#include "spec/run_spec.hpp"

namespace muster::job {

// model.path may be the folder of an adapter, which names its model: from here on path is that model, and model.adapter
// the folder.
Result<void> take_adapter_folder(spec::ModelSpec& model);

// What model.adapter's folder says; absent: there is none. Refused: one that is not for this model, and what this version
// cannot compute.
Result<std::optional<spec::AdapterOptions>> given_adapter(const spec::ModelSpec& model, const spec::ModelShape& shape);

// What is trained: the given one, else what model.use_lora and its settings ask for; absent: the weights themselves.
Result<std::optional<spec::AdapterOptions>> trained_adapters(const spec::ModelSpec& model, const spec::ModelShape& shape);

// The plan counts them.
Result<void> count_adapters(plan::Question& question, const std::optional<spec::AdapterOptions>& adapters);

}  // namespace muster::job

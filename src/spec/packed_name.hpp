// Names that say how a model is to be held: "meta-llama/Llama-3.1-8B-4bit".
#pragma once

#include "base/result.hpp"
#include "spec/model/model_search.hpp"
#include "spec/run_spec.hpp"

namespace muster::spec {

// A path that ends with -8bit or -4bit, where no model has that name and one has the name without it: from here on path
// is that model, and load_in_8bit or load_in_4bit is true. Refused: a name that contradicts the settings.
Result<void> take_packed_name(ModelSpec& model, const ModelSearch& search);

}  // namespace muster::spec

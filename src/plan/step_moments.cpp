#include "plan/step_moments.hpp"

namespace muster::plan {

std::vector<Moment> training_moments(Implementation implementation, const StepRequest& request) {
  return implementation == Implementation::muster ? muster_training(request) : transformers_training(request);
}

std::vector<Moment> inference_moments(Implementation implementation, const StepRequest& request,
                                      std::int64_t new_tokens) {
  return implementation == Implementation::muster ? muster_inference(request, new_tokens)
                                                  : transformers_inference(request, new_tokens);
}

}  // namespace muster::plan

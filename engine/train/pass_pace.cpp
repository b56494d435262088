#include "train/pass_pace.hpp"

#include <utility>

#include "train/abandon_pass.hpp"

namespace muster::train {

void PassPace::pass(const std::function<void()>& run) {
  if (home_.is_whole()) return run();
  any(true);
  under_way_ = true;
  home_.begin_pass(model::PassKind::measure);  // before anything can go wrong: what is left of it is known
  run();
  under_way_ = false;
}

void PassPace::abandon() {
  if (std::exchange(under_way_, false)) abandon_pass(home_, device_);
}

void PassPace::walk_along() {
  while (!home_.is_whole() && any(false)) home_.idle_pass(model::PassKind::measure);
}

bool PassPace::any(bool own) {
  const at::Tensor all = at::full({1}, own ? 1 : 0, at::TensorOptions().dtype(at::kLong).device(device_));
  ranks_.all_reduce(all, communicate::Reduction::maximum);
  return all.item<std::int64_t>() > 0;
}

}  // namespace muster::train

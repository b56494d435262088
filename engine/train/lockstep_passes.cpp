#include "train/lockstep_passes.hpp"

#include "train/abandon_pass.hpp"

namespace muster::train {

bool LockstepPasses::run(const std::function<void()>& work) {
  bool done = false;
  try {
    work();
    done = true;
  } catch (const c10::OutOfMemoryError&) {
    // First release what it held.
  }
  if (home_.is_whole()) return done;
  if (done) return walk_along();
  if (under_way_) abandon_pass(home_, device_);
  if (!ended_) agree(Word::out_of_memory);
  return false;
}

void LockstepPasses::pass(const std::function<void()>& one) {
  if (home_.is_whole()) return one();
  TORCH_CHECK_WITH(OutOfMemoryError, agree(Word::a_pass) != Word::out_of_memory, "another rank ran out of memory");
  under_way_ = true;
  home_.begin_pass(model::PassKind::measure);  // before anything can go wrong: what is left of it is known
  one();
  under_way_ = false;
}

bool LockstepPasses::walk_along() {
  for (;;) {
    const Word said = agree(Word::no_pass);
    if (said != Word::a_pass) return said == Word::no_pass;
    stand_by(home_, model::PassKind::measure, device_);
  }
}

LockstepPasses::Word LockstepPasses::agree(Word own) {
  said_.fill_(static_cast<std::int64_t>(own));
  ranks_.all_reduce(said_, communicate::Reduction::maximum);
  const Word said{said_.item<std::int64_t>()};
  ended_ = said == Word::out_of_memory;
  return said;
}

}  // namespace muster::train

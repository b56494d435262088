#include "train/abandon_pass.hpp"

#include <chrono>
#include <thread>

#include "train/memory_use.hpp"

namespace muster::train {

void abandon_pass(model::ParameterAccess& access, at::Device device) {
  constexpr int tries = 100;
  constexpr auto between = std::chrono::milliseconds(50);
  for (int i = 1;; ++i) {
    release_cached_memory(device);
    try {
      return access.abandon_pass();
    } catch (const c10::OutOfMemoryError&) {
      if (i == tries) throw;
    }
    std::this_thread::sleep_for(between);
  }
}

void stand_by(model::ParameterAccess& access, model::PassKind kind, at::Device device) {
  try {
    return access.idle_pass(kind);
  } catch (const c10::OutOfMemoryError&) {
  }
  abandon_pass(access, device);
}

}  // namespace muster::train

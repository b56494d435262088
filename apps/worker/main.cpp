// muster-worker: one rank of one job.
#include <fmt/format.h>

#include <cstdlib>

#include "worker/processor.hpp"

int main() {
  if (std::getenv("MUSTER_CONTROL") == nullptr) {
    fmt::print(stderr,
               "muster-worker {} is one rank of a job and is started by muster, not by hand\ntry: muster --help\n",
               MUSTER_VERSION);
    return 2;
  }
  muster::worker::avoid_trapping_instructions();
  return 1;
}

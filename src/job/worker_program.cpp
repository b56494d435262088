// Where muster-worker is.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "job/worker_run.hpp"
#include "system/process.hpp"

namespace muster::job {
namespace {

namespace fs = std::filesystem;

// Relative to the folder of the program: installed together; in one build tree; in ./muster's two build trees.
constexpr std::array places{"muster-worker", "../worker/muster-worker", "../../../worker/apps/worker/muster-worker"};

bool is_program(const fs::path& path) { return fs::is_regular_file(path) && ::access(path.c_str(), X_OK) == 0; }

}  // namespace

Result<fs::path> find_worker_beside(const fs::path& program) {
  for (const char* place : places) {
    const fs::path path = (program.parent_path() / place).lexically_normal();
    std::error_code failure;
    if (fs::exists(path, failure) && is_program(path)) return path;
  }
  return Error{Error::Kind::refused,
               fmt::format("muster-worker, the program that computes, is not built: there is none beside {}",
                           program.parent_path().string()),
               "in a checkout: scripts/setup.sh engine && cmake --preset worker && cmake --build --preset worker; "
               "elsewhere: set MUSTER_WORKER to its path"};
}

Result<fs::path> find_worker() {
  if (const char* chosen = std::getenv("MUSTER_WORKER"); chosen != nullptr && *chosen != '\0') {
    std::error_code failure;
    const fs::path path = fs::absolute(chosen, failure);
    if (fs::exists(path, failure) && is_program(path)) return path;
    return Error{Error::Kind::bad_input, fmt::format("MUSTER_WORKER={} is not a program that can be run", chosen),
                 "set it to the path of muster-worker, or unset it"};
  }
  const auto program = own_program();
  return program ? find_worker_beside(*program) : program.error();
}

}  // namespace muster::job

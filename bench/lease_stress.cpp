// Does the lease table hold under fire? Many contenders, random kill -9, and an independent witness of double grants.
//   lease_stress --contenders 200 --gpus 8 --rounds 1000 --seed 1 --folder DIR
// Prints one line of JSON; exits 1 on any violation.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "testing/lease_contention.hpp"
#include "testing/scratch_folder.hpp"

namespace {

using muster::lease::Contention;

bool parse_arguments(int count, char** arguments, Contention& contention) {
  for (int at = 1; at < count; at += 2) {
    if (at + 1 >= count) return false;
    const std::string_view name = arguments[at];
    const std::string_view value = arguments[at + 1];
    if (name == "--folder") {
      contention.folder = value;
      continue;
    }
    const auto number = muster::parse_number<int>(value);
    if (!number || *number < 1) return false;
    if (name == "--contenders")
      contention.contenders = *number;
    else if (name == "--gpus")
      contention.gpus = *number;
    else if (name == "--rounds")
      contention.rounds = *number;
    else if (name == "--seed")
      contention.seed = static_cast<std::uint64_t>(*number);
    else
      return false;
  }
  const auto processes = static_cast<std::size_t>(contention.contenders) + static_cast<std::size_t>(contention.rounds);
  return contention.gpus <= static_cast<int>(muster::lease::contention::Board::most_gpus) &&
         processes < muster::lease::contention::Board::most_processes;
}

}  // namespace

int main(int count, char** arguments) {
  Contention contention;
  if (!parse_arguments(count, arguments, contention)) {
    fmt::print(stderr, "usage: lease_stress [--contenders N] [--gpus N] [--rounds N] [--seed N] [--folder DIR]\n");
    return 2;
  }
  const muster::testing::ScratchFolder scratch;
  if (contention.folder.empty()) contention.folder = scratch.path() / "leases";
  const auto began = std::chrono::steady_clock::now();
  const auto outcome = contention.run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  fmt::print(
      "{{\"benchmark\": \"lease_stress\", \"contenders\": {}, \"gpus\": {}, \"rounds\": {}, \"seed\": {}, \"grants\": "
      "{}, "
      "\"refusals\": {}, \"kills\": {}, \"kills_of_holders\": {}, \"double_grants\": {}, \"errors\": {}, \"leaks\": "
      "{}, "
      "\"stalls\": {}, \"seconds\": {:.1f}}}\n",
      contention.contenders, contention.gpus, contention.rounds, contention.seed, outcome.grants, outcome.refusals,
      outcome.kills, outcome.kills_of_holders, outcome.double_grants, outcome.errors, outcome.leaks, outcome.stalls,
      seconds.count());
  return outcome.is_clean() ? 0 : 1;
}

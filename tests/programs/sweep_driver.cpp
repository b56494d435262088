// A sweep over standard input and output: sweep_driver SPEC.yaml [OBSERVATIONS.jsonl]. Orders and answers are those of
// docs/sweep.md; observations of an earlier sweep are taken as told. With --plots instead of a session: the pictures of
// those observations, as {"history", "parallel"}.
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "system/files.hpp"
#include "sweep/ask_tell.hpp"
#include "sweep/sweep_plot.hpp"

namespace muster::sweep {
namespace {

int fail(const Error& error) {
  std::cerr << to_string(error) << '\n';
  return exit_code(error.kind);
}

int run(int count, char** arguments) {
  const auto text = read_file(arguments[1]);
  if (!text) return fail(text.error());
  const auto spec = read_sweep_spec(*text, arguments[1]);
  if (!spec) return fail(spec.error());
  std::vector<Observation> observations;
  if (count > 2) {
    const auto lines = read_file(arguments[2]);
    if (!lines) return fail(lines.error());
    auto read = read_observations(*lines, arguments[2]);
    if (!read) return fail(read.error());
    observations = std::move(*read);
  }
  if (count > 3) {
    std::cout << nlohmann::json{{"history", history_svg("sweep", *spec, observations)},
                                {"parallel", parallel_svg("sweep", *spec, observations)}}
              << '\n';
    return 0;
  }
  MemoryLedger ledger("sweep", std::move(observations));
  const auto begin = std::chrono::steady_clock::now();
  AskTell session(*spec, ledger,
                  [begin] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); });
  const auto done = serve_ask_tell(session, std::cin, std::cout);
  return done ? 0 : fail(done.error());
}

}  // namespace
}  // namespace muster::sweep

int main(int count, char** arguments) {
  if (count < 2) {
    std::cerr << "usage: sweep_driver SPEC.yaml [OBSERVATIONS.jsonl [--plots]]\n";
    return 2;
  }
  return muster::sweep::run(count, arguments);
}

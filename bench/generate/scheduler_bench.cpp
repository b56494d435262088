// What the host spends on a step of generation: the scheduler, and the numbers that go to the device, without a model.
//
//   scheduler_bench SEQUENCES LENGTH STEPS
//
// Prints {"microseconds"}: of one step that writes a token of every sequence, the best of three runs.
#include <fmt/format.h>
#include <chrono>
#include <nlohmann/json.hpp>

#include "generate/generator.hpp"
#include "model/pass.hpp"

namespace {

using namespace muster;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t block_tokens = 64;

class NoModel final : public generate::StepRunner {
 public:
  int depth() const override { return 1; }
  void begin(const generate::Step& step) override {
    const model::PassNumbers numbers(step.batch, block_tokens, 0);
    drawn_.assign(step.draws.size(), {1, 0});
    numbers_ += numbers.values().numel();
  }
  std::vector<tensor::ChosenToken> finish() override { return std::move(drawn_); }

 private:
  std::vector<tensor::ChosenToken> drawn_;
  std::int64_t numbers_ = 0;
};

double seconds_of(std::int64_t sequences, std::int64_t length, std::int64_t steps) {
  NoModel runner;
  generate::BlockPool pool(sequences * ((length + steps + block_tokens) / block_tokens + 1), block_tokens);
  generate::Generator generator(runner, pool, {.most_sequences = sequences, .most_prompt_rows = sequences * length});
  for (std::int64_t i = 0; i < sequences; ++i) {
    generate::Request request{std::vector<std::int32_t>(static_cast<std::size_t>(length), 1), {}};
    request.branches.push_back({.index = i, .most_tokens = steps});
    generator.add(std::move(request));
  }
  generator.step();
  const auto start = Clock::now();
  while (!generator.idle()) generator.step();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int main(int, char** argv) {
  const std::int64_t sequences = std::stoll(argv[1]), length = std::stoll(argv[2]), steps = std::stoll(argv[3]);
  double best = seconds_of(sequences, length, steps);
  for (int i = 0; i < 2; ++i) best = std::min(best, seconds_of(sequences, length, steps));
  fmt::print("{}\n", nlohmann::json{{"microseconds", best / static_cast<double>(steps) * 1e6}}.dump());
}

// Does a model that is split by layers keep all its stages busy? Stages that take a fixed time a step, as threads of
// one process, under the generator that ranks run: how long the same answers take with so many steps under way, each of
// one batch of sequences.
//
//   pipeline_bench [STAGES [MILLISECONDS]]     one JSON line for each depth; 4 stages of 5 ms where nothing is said
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "communicate/thread_group.hpp"
#include "generate/generator.hpp"
#include "generate/pipeline_runner.hpp"

namespace {

using namespace muster;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t width = 64, batch = 4, sequences = 32, tokens = 20;

// Does nothing but take its time.
class SleepingStage : public generate::StageWork {
 public:
  explicit SleepingStage(std::chrono::milliseconds delay) : delay_(delay) {}
  at::Tensor forward(const generate::Step& step, const at::Tensor&) override {
    std::this_thread::sleep_for(delay_);
    return at::zeros({step.batch.rows(), width});
  }
  std::vector<tensor::ChosenToken> draw(const generate::Step& step, const at::Tensor&) override {
    return std::vector<tensor::ChosenToken>(step.draws.size(), {7, 0});
  }
  at::Tensor empty_rows(std::int64_t rows) const override { return at::empty({rows, width}); }

 private:
  std::chrono::milliseconds delay_;
};

void generate_all(generate::StepRunner& runner) {
  generate::BlockPool pool(sequences, 64);
  generate::GeneratorSettings settings;
  settings.most_sequences = batch * runner.depth();
  generate::Generator generator(runner, pool, settings);
  for (std::int64_t i = 0; i < sequences; ++i) generator.add({{1, 2, 3}, {{i, 0, tokens}}});
  while (!generator.idle()) generator.step();
}

double seconds_with(int stages, int depth, std::chrono::milliseconds delay) {
  const auto ranks = communicate::make_thread_group(stages, 60s);
  std::vector<std::jthread> others;
  for (int stage = 1; stage < stages; ++stage)
    others.emplace_back([&, stage] {
      SleepingStage work(delay);
      generate::PipelineLink link({*ranks[static_cast<std::size_t>(stage)], nullptr}, 10s);
      generate::run_stage(work, link);
    });
  SleepingStage work(delay);
  generate::PipelineLink link({*ranks[0], nullptr}, 10s);
  generate::PipelineRunner runner(work, link, depth);
  const auto began = Clock::now();
  generate_all(runner);
  const std::chrono::duration<double> took = Clock::now() - began;
  link.end();
  return took.count();
}

}  // namespace

int main(int count, char** words) {
  const int stages = count > 1 ? std::atoi(words[1]) : 4;
  const std::chrono::milliseconds delay(count > 2 ? std::atoi(words[2]) : 5);
  double unpipelined = 0;
  for (const int depth : {1, stages, stages + 1, 2 * stages}) {
    const double seconds = seconds_with(stages, depth, delay);
    if (depth == 1) unpipelined = seconds;
    fmt::print("{}\n", nlohmann::ordered_json{{"stages", stages},
                                              {"delay_ms", delay.count()},
                                              {"depth", depth},
                                              {"seconds", seconds},
                                              {"times_unpipelined", unpipelined / seconds}}
                           .dump());
    std::fflush(stdout);
  }
}

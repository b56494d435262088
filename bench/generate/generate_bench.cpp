// How many tokens a second are generated, greedily, by a model of random weights.
//
//   generate_bench CONFIG DTYPE[+FORM] DEVICE THREADS BATCH REPEATS [deterministic] < LENGTHS
//
// Standard input has a line for each prompt: its length and that of its answer. Prints {"tokens", "seconds",
// "first_seconds", "rate", "writing_rate"}, of the fastest repeat: tokens of answers, the time of everything, the time
// until every sequence of a first batch had a token, answers' tokens per second, and those after that time per second.
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "bench_model.hpp"
#include "generate/generator.hpp"
#include "generate/local_runner.hpp"

namespace {

using namespace muster;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t block_tokens = 64;

struct Length {
  std::int64_t prompt = 0;
  std::int64_t answer = 0;
};

std::vector<Length> read_lengths() {
  std::vector<Length> lengths;
  for (Length length; std::cin >> length.prompt >> length.answer;) lengths.push_back(length);
  return lengths;
}

generate::Request make_request(std::int64_t index, const Length& length, std::int64_t vocabulary) {
  generate::Request request;
  for (std::int64_t i = 0; i < length.prompt; ++i)
    request.prompt.push_back(static_cast<std::int32_t>((index * 7919 + i * 104729 + 13) % vocabulary));
  request.branches.push_back({.index = index, .most_tokens = length.answer});
  return request;
}

struct Measured {
  std::int64_t tokens = 0;
  double seconds = 0;
  std::int64_t first_tokens = 0;
  double first_seconds = 0;
};

Measured run(generate::StepRunner& runner, generate::BlockPool& pool, const generate::GeneratorSettings& settings,
             const std::vector<Length>& lengths, std::int64_t vocabulary) {
  generate::Generator generator(runner, pool, settings);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    generator.add(make_request(static_cast<std::int64_t>(i), lengths[i], vocabulary));
  const auto first_batch = std::min(lengths.size(), static_cast<std::size_t>(settings.most_sequences));
  Measured measured;
  std::set<std::int64_t> begun;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  while (!generator.idle()) {
    for (const generate::GeneratedToken& token : generator.step()) {
      ++measured.tokens;
      if (begun.size() < first_batch) begun.insert(token.index);
    }
    if (measured.first_seconds == 0 && begun.size() == first_batch)
      measured.first_seconds = elapsed(), measured.first_tokens = measured.tokens;
  }
  measured.seconds = elapsed();
  return measured;
}

}  // namespace

int main(int argc, char** argv) {
  const at::NoGradGuard forward_only;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::int64_t batch = std::stoll(words.at(4));
  const int repeats = std::stoi(words.at(5));
  bench::BenchModel bench(words, words.size() > 6);
  const bool on_gpu = bench.device().is_cuda();
  const std::vector<Length> lengths = read_lengths();
  std::int64_t longest = 1;
  for (const Length& length : lengths) longest = std::max(longest, length.prompt + length.answer);
  const std::int64_t blocks = batch * ((longest + block_tokens - 1) / block_tokens);
  model::KeyValueCache cache(bench.model().cache_shape(blocks, block_tokens));
  generate::LocalRunner runner(bench.model(), bench.ops(), cache, {.temperature = 0}, longest);
  generate::BlockPool pool(blocks, block_tokens);
  const generate::GeneratorSettings settings{.most_sequences = batch, .prefill_patience = on_gpu ? 0.25 : 0.0};
  run(runner, pool, settings, lengths, bench.vocabulary());  // warm
  Measured best;
  for (int i = 0; i < repeats; ++i) {
    const Measured measured = run(runner, pool, settings, lengths, bench.vocabulary());
    if (best.tokens == 0 || measured.seconds < best.seconds) best = measured;
  }
  const double writing = best.seconds - best.first_seconds;
  fmt::print("{}\n", nlohmann::json{{"tokens", best.tokens},
                                    {"seconds", best.seconds},
                                    {"first_seconds", best.first_seconds},
                                    {"rate", static_cast<double>(best.tokens) / best.seconds},
                                    {"writing_rate", static_cast<double>(best.tokens - best.first_tokens) / writing}}
                         .dump());
}

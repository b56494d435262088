// How many tokens a second are read and scored, by a model of random weights.
//
//   score_bench CONFIG DTYPE DEVICE THREADS BATCH LENGTH REPEATS [deterministic]
//
// Prints {"prefill", "scoring"} in tokens per second: the best of the repeats. Prefill gives the logits of each
// sequence's last token, scoring the log-probability of every token.
#include <chrono>
#include <nlohmann/json.hpp>

#include "bench_model.hpp"
#include "generate/generator.hpp"
#include "generate/local_runner.hpp"
#include "generate/score_groups.hpp"

namespace {

using namespace muster;
using Clock = std::chrono::steady_clock;

std::vector<generate::ScoredText> make_texts(std::int64_t batch, std::int64_t length, std::int64_t vocabulary) {
  std::vector<generate::ScoredText> texts;
  for (std::int64_t i = 0; i < batch; ++i) {
    generate::ScoredText text{i, {}, 1};
    for (std::int64_t j = 0; j < length; ++j)
      text.tokens.push_back(static_cast<std::int32_t>((i * 7919 + j * 104729 + 13) % vocabulary));
    texts.push_back(std::move(text));
  }
  return texts;
}

void prefill(model::CausalModel& model, const std::vector<generate::ScoredText>& texts) {
  model::Batch batch;
  std::vector<std::int64_t> last;
  for (const auto& text : texts) {
    const auto length = static_cast<std::int64_t>(text.tokens.size());
    batch.tokens.insert(batch.tokens.end(), text.tokens.begin(), text.tokens.end());
    batch.parts.push_back({length, 0, length});
    last.push_back(batch.rows() - 1);
  }
  const model::Pass pass = model.prepare(batch, nullptr);
  const at::Tensor hidden = model.forward(pass, model.embed(pass));
  model.logits(hidden.index_select(0, at::tensor(last, at::kLong).to(hidden.device()))).to(at::kCPU);
}

void score(model::CausalModel& model, tensor::DeviceOps& ops, model::KeyValueCache& cache,
           const std::vector<generate::ScoredText>& texts) {
  generate::LocalRunner runner(model, ops, cache, {}, cache.shape().blocks * cache.shape().block_tokens);
  generate::BlockPool pool(cache.shape().blocks, cache.shape().block_tokens);
  generate::GeneratorSettings settings;
  settings.most_sequences = static_cast<std::int64_t>(texts.size());
  generate::Generator generator(runner, pool, settings);
  for (generate::Request& request : generate::separate_scores(texts)) generator.add(std::move(request));
  while (!generator.idle()) generator.step();
}

template <class Work>
double best_rate(std::int64_t tokens, int repeats, Work&& work) {
  double best = 0;
  work();  // warm
  for (int i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    work();
    best = std::max(best, static_cast<double>(tokens) / std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const at::NoGradGuard forward_only;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::int64_t batch = std::stoll(words.at(4)), length = std::stoll(words.at(5));
  const int repeats = std::stoi(words.at(6));
  bench::BenchModel bench(words, words.size() > 7);
  model::CausalModel& model = bench.model();
  const auto texts = make_texts(batch, length, bench.vocabulary());
  model::KeyValueCache cache(model.cache_shape(batch * ((length + 63) / 64), 64));
  const double read = best_rate(batch * length, repeats, [&] { prefill(model, texts); });
  const double scored = best_rate(batch * length, repeats, [&] { score(model, bench.ops(), cache, texts); });
  fmt::print("{}\n", nlohmann::json{{"prefill", read}, {"scoring", scored}}.dump());
}

// Generates and scores with a model, scheduled as asked, for tests that compare answers.
//
//   generate_driver [MODEL DTYPE THREADS]
//
// {"open": [such words]} takes another model in the place of the last: loading LibTorch takes longer than most models of tests do.
// Reads one JSON object a line: {"requests": [{"prompt": [ids], "branches": [{"index", "sample", "most_tokens",
// "given", "unscored"}]}], "rules": {"temperature", "top_k", …}, "end_tokens": [ids], "seed", "most_sequences",
// "most_prompt_rows", "patience", "blocks"}; or, instead of requests, "texts": [{"index", "tokens", "context"}], which
// are scored in groups. Answers {"answers": [[index, sample, tokens, log_probabilities, "stop" | "length"]], "rows",
// "moves"}: what was computed, and how many blocks were moved. Or "lessons": [{"tokens", "context"}], side by side in
// one pass of a training, answered with {"losses": [[of each token]], "learnt", "measured"}: each token's loss, and the
// sum of all of them with and without a backward pass.
#include <fmt/format.h>

#include <ATen/Parallel.h>

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/tensor_source.hpp"
#include "generate/generator.hpp"
#include "generate/local_runner.hpp"
#include "generate/score_groups.hpp"
#include "spec/model/model_source.hpp"
#include "tensor/element_types.hpp"
#include "train/exact_loss.hpp"
#include "train/objective_pass.hpp"
#include "train/objectives/supervised.hpp"

namespace {

using namespace muster;
using nlohmann::json;

constexpr std::int64_t block_tokens = 64;

template <class T>
T need(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n{}\n", result.error().what, result.error().remedy);
  std::exit(2);
}

// Counts what goes through.
class CountingRunner final : public generate::StepRunner {
 public:
  explicit CountingRunner(generate::StepRunner& runner) : runner_(runner) {}
  int depth() const override { return runner_.depth(); }
  void begin(const generate::Step& step) override {
    rows += step.batch.rows();
    moves += step.moves.size();
    runner_.begin(step);
  }
  std::vector<tensor::ChosenToken> finish() override { return runner_.finish(); }

  std::int64_t rows = 0;
  std::size_t moves = 0;

 private:
  generate::StepRunner& runner_;
};

std::vector<generate::Request> requests_of(const json& asked) {
  if (asked.contains("texts")) {
    std::vector<generate::ScoredText> texts;
    for (const json& text : asked["texts"])
      texts.push_back({text["index"], text["tokens"].get<std::vector<std::int32_t>>(), text["context"]});
    return generate::group_scores(std::move(texts));
  }
  std::vector<generate::Request> requests;
  for (const json& from : asked["requests"]) {
    generate::Request request{from["prompt"].get<std::vector<std::int32_t>>(), {}};
    for (const json& branch : from["branches"])
      request.branches.push_back(
          {branch["index"], branch.value("sample", std::int64_t{0}), branch.value("most_tokens", std::int64_t{0}),
           branch.value("given", std::vector<std::int32_t>()), branch.value("unscored", std::int64_t{0})});
    requests.push_back(std::move(request));
  }
  return requests;
}

tensor::SamplingRules rules_of(const json& asked) {
  const json given = asked.value("rules", json::object());
  tensor::SamplingRules rules;
  rules.temperature = given.value("temperature", 0.0);
  rules.top_k = given.value("top_k", std::int64_t{0});
  rules.top_p = given.value("top_p", 1.0);
  rules.repetition_penalty = given.value("repetition_penalty", 1.0);
  rules.log_probabilities = true;
  return rules;
}

generate::GeneratorSettings settings_of(const json& asked, const tensor::SamplingRules& rules) {
  generate::GeneratorSettings settings;
  settings.penalizes_repetition = rules.repetition_penalty != 1;
  settings.seed = asked.value("seed", std::uint64_t{0});
  settings.end_tokens = asked.value("end_tokens", std::vector<std::int32_t>());
  settings.most_sequences = asked.value("most_sequences", settings.most_sequences);
  settings.most_prompt_rows = asked.value("most_prompt_rows", settings.most_prompt_rows);
  settings.prefill_patience = asked.value("patience", 0.0);
  return settings;
}

json answer(const json& asked, model::CausalModel& model, tensor::DeviceOps& ops) {
  const tensor::SamplingRules rules = rules_of(asked);
  model::KeyValueCache cache(model.cache_shape(asked.value("blocks", std::int64_t{64}), block_tokens));
  generate::LocalRunner local(model, ops, cache, rules, cache.shape().blocks * block_tokens);
  CountingRunner runner(local);
  generate::BlockPool pool(cache.shape().blocks, block_tokens);
  generate::Generator generator(runner, pool, settings_of(asked, rules));
  for (generate::Request& request : requests_of(asked)) generator.add(std::move(request));
  struct Answer {
    std::vector<std::int32_t> tokens;
    std::vector<float> log_probabilities;
    std::string finish;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Answer> answers;
  while (!generator.idle())
    for (const generate::GeneratedToken& token : generator.step()) {
      Answer& grown = answers[{token.index, token.sample}];
      grown.tokens.push_back(token.token);
      grown.log_probabilities.push_back(token.log_probability);
      if (token.finish) grown.finish = *token.finish == generate::Finish::stop ? "stop" : "length";
    }
  json told = json::array();
  for (const auto& [name, grown] : answers)
    told.push_back({name.first, name.second, grown.tokens, grown.log_probabilities, grown.finish});
  return {{"answers", told}, {"rows", runner.rows}, {"moves", runner.moves}};
}

// No gradient is kept.
class Unwanted final : public model::ParameterAccess {
 public:
  void enter(model::UnitId) override {}
  void leave(model::UnitId) override {}
  tensor::GradientSum gradient(model::ParameterId) override { return {}; }
  void gradients_complete(model::UnitId) override {}
};

json lessons(const json& asked, model::CausalModel& model, tensor::DeviceOps& ops) {
  data::MicroBatch batch;
  std::vector<std::size_t> counts;
  for (const json& lesson : asked["lessons"]) {
    const auto tokens = lesson["tokens"].get<std::vector<std::int64_t>>();
    const std::int64_t first = batch.rows();
    batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end() - 1);
    batch.parts.push_back(std::ssize(tokens) - 1);
    const auto context = lesson["context"].get<std::int64_t>();
    for (std::int64_t i = context; i < std::ssize(tokens); ++i) {
      batch.trained_rows.push_back(first + i - 1);
      batch.targets.push_back(tokens[static_cast<std::size_t>(i)]);
    }
    counts.push_back(tokens.size() - static_cast<std::size_t>(context));
  }
  train::ObjectivePass passes(train::make_supervised(), model, ops, false);
  // An objective gives sums: of one token at a time, of all the same rows.
  json losses = json::array();
  std::size_t next = 0;
  for (const std::size_t count : counts) {
    json each = json::array();
    for (std::size_t i = 0; i < count; ++i, ++next) {
      data::MicroBatch one = batch;
      one.trained_rows = {batch.trained_rows[next]};
      one.targets = {batch.targets[next]};
      each.push_back(train::loss_of(passes.measure(one, {})).value);
    }
    losses.push_back(std::move(each));
  }
  Unwanted access;
  return {{"losses", losses},
          {"learnt", train::loss_of(passes.learn(batch, {}, access)).value},
          {"measured", train::loss_of(passes.measure(batch, {})).value}};
}

using Words = std::vector<std::string>;

// Computes with one model; returns the words of the next, or none at the end of the input.
Words serve(const Words& words) {
  const std::map<std::string, spec::ElementType> types{{"float32", spec::ElementType::float32},
                                                       {"bfloat16", spec::ElementType::bfloat16}};
  const spec::ElementType type = types.at(words.at(1));
  const auto search = spec::model_search_from_environment();
  const auto description = need(spec::read_model(words.at(0), search, type));
  const auto source = need(checkpoint::open_checkpoint(words.at(0), search));
  const int threads = std::stoi(words.at(2));
  auto ops = need(tensor::make_device_ops({at::Device(at::kCPU), threads, spec::Attention::sdpa, false}));
  auto model = need(model::CausalModel::load(description.config, *source, ops,
                                             {tensor::to_torch(type), std::nullopt, threads, {}}));
  std::string line;
  while (std::getline(std::cin, line)) {
    const json asked = json::parse(line);
    if (asked.contains("open")) return asked["open"];
    fmt::print("{}\n", (asked.contains("lessons") ? lessons : answer)(asked, model, ops).dump());
    std::fflush(stdout);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const at::NoGradGuard forward_only;
  at::set_num_threads(1);
  Words words(argv + 1, argv + argc);
  std::string line;
  if (words.empty() && std::getline(std::cin, line)) words = json::parse(line)["open"].get<Words>();
  while (!words.empty()) words = serve(words);
}

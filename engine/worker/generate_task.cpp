// Answers and scores requests with one model, on one device or split by layers over several ranks.
#include <fmt/format.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "chat/model_text.hpp"
#include "checkpoint/tensor_source.hpp"
#include "generate/generator.hpp"
#include "generate/local_runner.hpp"
#include "generate/scorer.hpp"
#include "model/random_source.hpp"
#include "spec/model_source.hpp"
#include "tensor/element_types.hpp"
#include "tokenizer/streaming_decoder.hpp"
#include "worker/pipeline.hpp"
#include "worker/prompt_encoder.hpp"
#include "worker/task.hpp"

namespace muster::worker {
namespace {

using Clock = std::chrono::steady_clock;
using wire::GenerateTask;

constexpr std::chrono::milliseconds between_progress(200);
constexpr std::int64_t cache_block_tokens = 64;

std::int64_t longest_sequence(const GenerateTask& task, const spec::ModelConfig& config) {
  return std::min(task.sequence_length, config.positions);
}

// Everything that answering needs.
struct Loaded {
  tensor::Arithmetic arithmetic;
  std::optional<model::CausalModel> model;
  std::optional<chat::ModelText> text;
};

Result<std::unique_ptr<checkpoint::TensorSource>> open_weights(const GenerateTask& task,
                                                               const spec::ModelDescription& description,
                                                               const spec::ModelSearch& search, std::uint64_t seed) {
  if (task.random_weights) return model::make_random_source(description.config, seed);
  return checkpoint::open_checkpoint(task.model, search);
}

std::function<void(const model::LoadProgress&)> tell_loading(Job& job) {
  return [&job, last = Clock::now()](const model::LoadProgress& progress) mutable {
    const auto now = Clock::now();
    if (now - last < between_progress && progress.done < progress.total) return;
    last = now;
    job.channel.tell(wire::Progress{"loading", progress.done, progress.total});
  };
}

// layers: absent: all.
Result<std::unique_ptr<Loaded>> load(const GenerateTask& task, Job& job, std::optional<model::LayerRange> layers) {
  auto loaded = std::make_unique<Loaded>();
  const wire::Assignment& assignment = job.assignment();
  const spec::ModelSearch search = spec::model_search_from_environment();
  const auto description = spec::read_model(task.model, search, std::nullopt);
  if (!description) return description.error();
  auto text = chat::read_model_text(task.tokenizer.value_or(task.model), search);
  if (!text) return text.error();
  loaded->text.emplace(std::move(*text));
  auto arithmetic = tensor::make_arithmetic({job.device, assignment.threads, task.attention, task.deterministic});
  if (!arithmetic) return arithmetic.error();
  loaded->arithmetic = std::move(*arithmetic);
  const auto source = open_weights(task, *description, search, assignment.seed);
  if (!source) return source.error();
  const spec::ElementType usual =
      loaded->arithmetic.prefers_bfloat16 ? spec::ElementType::bfloat16 : spec::ElementType::float32;
  auto model = model::CausalModel::load(
      description->config, **source, loaded->arithmetic,
      {tensor::to_torch(task.dtype.value_or(usual)), layers, std::max(1, assignment.threads), tell_loading(job)});
  if (!model) return model.error();
  loaded->model.emplace(std::move(*model));
  return loaded;
}

model::CacheShape cache_shape(const GenerateTask& task, const Loaded& loaded) {
  const std::int64_t longest = longest_sequence(task, loaded.model->config());
  const std::int64_t blocks = (longest + cache_block_tokens - 1) / cache_block_tokens;
  return loaded.model->cache_shape(task.batch_size * blocks, cache_block_tokens);
}

tensor::SamplingRules rules(const GenerateTask& task) {
  tensor::SamplingRules rules;
  rules.temperature = task.temperature;
  rules.top_k = task.top_k;
  rules.top_p = task.top_p;
  rules.repetition_penalty = task.repetition_penalty;
  rules.log_probabilities = task.log_probabilities;
  return rules;
}

// The answers to one request, as they grow.
struct OpenRequest {
  wire::GenerationResult result;
  std::vector<std::optional<tokenizer::StreamingDecoder>> decoders;
  std::int64_t unfinished = 0;
};

class Generation {
 public:
  // All must outlive this.
  Generation(const GenerateTask& task, Job& job, Loaded& loaded, generate::StepRunner& runner,
             const model::KeyValueCache& cache)
      : task_(task),
        job_(job),
        text_(*loaded.text),
        encoder_(*loaded.text, {longest_sequence(task, loaded.model->config()), task.max_new_tokens}),
        pool_(cache.shape().blocks, cache.shape().block_tokens),
        generator_(runner, pool_, settings(task, job, loaded)) {}

  Result<void> run();

 private:
  static generate::GeneratorSettings settings(const GenerateTask& task, const Job& job, const Loaded& loaded);
  Result<void> take_requests();
  Result<void> add(const wire::Request& request);
  void extend(const generate::GeneratedToken& token);
  void finish(std::int64_t index, OpenRequest& request);
  void tell_progress();

  const GenerateTask& task_;
  Job& job_;
  const chat::ModelText& text_;
  PromptEncoder encoder_;
  generate::BlockPool pool_;
  generate::Generator generator_;
  std::map<std::int64_t, OpenRequest> open_;
  std::int64_t wanted_ = 0;  // requests that were asked for and have not come
  bool ended_ = false;       // no more will come
  std::int64_t tokens_ = 0;  // chosen so far
  Clock::time_point told_ = Clock::now();
};

generate::GeneratorSettings Generation::settings(const GenerateTask& task, const Job& job, const Loaded& loaded) {
  generate::GeneratorSettings settings;
  settings.penalizes_repetition = task.repetition_penalty != 1;
  settings.seed = job.assignment().seed;
  settings.end_tokens = loaded.text->end_tokens();
  settings.most_sequences = task.batch_size;
  return settings;
}

// Asks for as many as keep the device busy; waits for one only where there is nothing else to do.
Result<void> Generation::take_requests() {
  const std::int64_t enough = 2 * task_.batch_size / task_.samples + 1;
  const std::int64_t more = enough - static_cast<std::int64_t>(open_.size()) - wanted_;
  if (!ended_ && more > 0) {
    job_.channel.want(static_cast<int>(more));
    wanted_ += more;
  }
  while (!ended_) {
    const bool waits = generator_.idle();
    const auto request = waits ? job_.channel.next_request() : job_.channel.take_request(ended_);
    if (!request) {
      ended_ = ended_ || waits;
      break;
    }
    --wanted_;
    if (auto added = add(*request); !added) return added;
  }
  return {};
}

Result<void> Generation::add(const wire::Request& request) {
  auto prompt = encoder_.encode(request);
  if (!prompt) return prompt.error();
  OpenRequest& open = open_[request.index];
  open.result.samples.resize(static_cast<std::size_t>(task_.samples));
  open.decoders.resize(open.result.samples.size());
  if (task_.stream)
    for (auto& decoder : open.decoders) decoder.emplace(text_.tokenizer(), true);
  open.unfinished = task_.samples;
  open.result.prompt_tokens = static_cast<std::int64_t>(prompt->tokens.size());
  open.result.dropped_tokens = prompt->dropped;
  for (std::int64_t sample = 0; sample < task_.samples; ++sample)
    generator_.add({request.index, sample, prompt->tokens, prompt->most_new_tokens});
  return {};
}

void Generation::extend(const generate::GeneratedToken& token) {
  OpenRequest& open = open_.at(token.index);
  const auto sample = static_cast<std::size_t>(token.sample);
  wire::Answer& answer = open.result.samples[sample];
  answer.tokens.push_back(token.token);
  ++tokens_;
  if (task_.log_probabilities) answer.logprobs.push_back(static_cast<double>(token.log_probability));
  if (auto& decoder = open.decoders[sample]) {
    std::string piece = decoder->push(token.token);
    if (token.finish) piece += decoder->finish();
    if (!piece.empty()) job_.channel.tell(wire::Token{token.index, static_cast<int>(token.sample), std::move(piece)});
  }
  if (!token.finish) return;
  answer.finish = *token.finish == generate::Finish::stop ? "stop" : "length";
  answer.text = text_.tokenizer().decode(answer.tokens, true);
  if (--open.unfinished == 0) finish(token.index, open);
}

void Generation::finish(std::int64_t index, OpenRequest& request) {
  job_.channel.tell(wire::TaskResult{index, wire::print_fields(request.result)});
  open_.erase(index);
}

void Generation::tell_progress() {
  if (const auto now = Clock::now(); now - told_ >= between_progress) {
    told_ = now;
    job_.channel.tell(wire::Progress{"tokens", tokens_, std::nullopt});
  }
}

Result<void> Generation::run() {
  while (true) {
    if (auto taken = take_requests(); !taken) return taken;
    if (generator_.idle()) return {};
    for (const generate::GeneratedToken& token : generator_.step()) extend(token);
    tell_progress();
  }
}

// Given completions, as many at once as sequences may be.
Result<void> run_scoring(const GenerateTask& task, Job& job, Loaded& loaded) {
  const PromptEncoder encoder(*loaded.text, {longest_sequence(task, loaded.model->config()), 0});
  while (true) {
    std::vector<generate::ScoreRequest> batch;
    std::vector<std::pair<std::int64_t, wire::ScoreResult>> results;
    for (const wire::Request& request : job.channel.gather(static_cast<std::size_t>(task.batch_size))) {
      auto pair = encoder.encode_pair(request);
      if (!pair) return pair.error();
      wire::ScoreResult result;
      result.prompt_tokens = pair->context;
      result.dropped_tokens = pair->dropped;
      results.emplace_back(request.index, std::move(result));
      batch.push_back({std::move(pair->tokens), pair->context});
    }
    if (batch.empty()) return {};
    const auto scores = generate::score(*loaded.model, loaded.arithmetic, batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      auto& [index, result] = results[i];
      for (const float score : scores[i]) result.logprob += static_cast<double>(score);
      result.token_count = static_cast<std::int64_t>(scores[i].size());
      if (task.log_probabilities) result.logprobs.assign(scores[i].begin(), scores[i].end());
      job.channel.tell(wire::TaskResult{index, wire::print_fields(result)});
    }
  }
}

}  // namespace

Result<void> run_task(const GenerateTask& task, Job& job) {
  const at::NoGradGuard forward_only;
  // muster's own kernels have their own threads; two teams on the same cores would only wait for each other.
  if (job.device.is_cpu()) at::set_num_threads(1);
  std::unique_ptr<Pipeline> pipeline;
  if (task.stages.size() > 1) {
    auto joined = Pipeline::join(job, task.stages);
    if (!joined) return joined.error();
    pipeline = std::move(*joined);
  }
  auto loaded = load(task, job, pipeline ? std::optional(pipeline->layers()) : std::nullopt);
  if (!loaded) return loaded.error();
  auto& [arithmetic, model, text] = **loaded;
  job.ready();
  if (task.score && !pipeline) return run_scoring(task, job, **loaded);
  model::KeyValueCache cache(cache_shape(task, **loaded));
  if (pipeline && !pipeline->is_first()) {
    pipeline->serve(*model, arithmetic, cache, rules(task));
    return {};
  }
  generate::LocalRunner local(*model, arithmetic, cache, rules(task), longest_sequence(task, model->config()));
  generate::StepRunner& runner = pipeline ? pipeline->start(*model, arithmetic, cache, rules(task)) : local;
  Generation generation(task, job, **loaded, runner, cache);
  auto done = generation.run();
  if (done && pipeline) pipeline->end();
  return done;
}

}  // namespace muster::worker

#include "worker/scoring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "json/fields.hpp"
#include "worker/answering.hpp"

namespace muster::worker {
namespace {

// In batches. The first windows are small, so that a few requests are shared out between all ranks.
constexpr std::int64_t first_window = 2;
constexpr std::int64_t longest_window = 64;

bool depends_on_length(const spec::ModelConfig& config) {
  return config.rope.kind == spec::RopeKind::dynamic || config.rope.kind == spec::RopeKind::longrope;
}

}  // namespace

Scoring::Scoring(const wire::GenerateTask& task, Job& job, const LoadedModel& loaded, generate::StepRunner& runner,
                 generate::BlockPool& pool)
    : task_(task),
      job_(job),
      shares_prompts_(!depends_on_length(loaded.model->config())),
      encoder_(*loaded.text, {loaded.longest(task), 0, loaded.model->config().vocabulary}),
      generator_(runner, pool, generator_settings(task, job, loaded)),
      progress_(job) {}

Result<void> Scoring::add(const std::vector<wire::Request>& window) {
  std::vector<generate::ScoredText> texts;
  for (const wire::Request& request : window) {
    auto pair = encoder_.encode_pair(request);
    if (!pair) return pair.error();
    wire::ScoreResult& result = open_[request.index];
    result.prompt_tokens = pair->context;
    result.dropped_tokens = pair->dropped;
    if (pair->context == static_cast<std::int64_t>(pair->tokens.size()))
      finish(request.index);  // nothing to score
    else
      texts.push_back({request.index, std::move(pair->tokens), pair->context, pair->adapter});
  }
  for (generate::Request& request :
       shares_prompts_ ? generate::group_scores(std::move(texts)) : generate::separate_scores(std::move(texts)))
    generator_.add(std::move(request));
  return {};
}

void Scoring::extend(const generate::GeneratedToken& token) {
  wire::ScoreResult& result = open_.at(token.index);
  if (std::isnan(token.log_probability) && !result.error)
    result.error = fmt::format("the model's logits for token {} of the completion are not numbers (NaN)",
                               result.token_count + 1);
  result.logprob += static_cast<double>(token.log_probability);
  ++result.token_count;
  if (task_.log_probabilities) result.logprobs.push_back(static_cast<double>(token.log_probability));
  progress_.add(1);
  if (token.finish) finish(token.index);
}

void Scoring::finish(std::int64_t index) {
  if (wire::ScoreResult& result = open_.at(index); result.error) {
    result.logprob = 0;
    result.logprobs.clear();
  }
  job_.channel.tell(wire::TaskResult{index, print_fields(open_.at(index))});
  open_.erase(index);
}

Result<void> Scoring::run() {
  for (std::int64_t batches = first_window;; batches = std::min(2 * batches, longest_window)) {
    const auto window = job_.channel.gather(static_cast<std::size_t>(batches * task_.sequences()));
    if (window.empty()) break;
    if (auto added = add(window); !added) return added;
    while (!generator_.idle()) {
      for (const generate::GeneratedToken& token : generator_.step()) extend(token);
      progress_.tell_now_and_then();
    }
  }
  progress_.tell();
  return {};
}

}  // namespace muster::worker

#include "generate/generator.hpp"

#include <algorithm>

namespace muster::generate {
namespace {

std::int64_t size(const std::vector<std::int32_t>& tokens) { return static_cast<std::int64_t>(tokens.size()); }

// The longest it can become: what is reserved, and what its rotary frequencies are made for.
std::int64_t longest(const GenerationRequest& request) { return size(request.prompt) + request.most_tokens; }

}  // namespace

Generator::Generator(model::CausalModel& model, model::KeyValueCache& cache, GeneratorSettings settings)
    : model_(model), cache_(cache), settings_(std::move(settings)) {}

void Generator::add(GenerationRequest request) { waiting_.push_back(std::move(request)); }

void Generator::admit() {
  while (!waiting_.empty() && static_cast<std::int64_t>(active_.size()) < settings_.most_sequences) {
    Sequence sequence{std::move(waiting_.front()), model::CachedSequence(cache_), {}, 0};
    if (!sequence.cached.reserve(longest(sequence.request))) {
      waiting_.front() = std::move(sequence.request);
      TORCH_INTERNAL_ASSERT(!active_.empty(), "a sequence that no cache of this size can hold");
      return;
    }
    waiting_.pop_front();
    sequence.tokens = sequence.request.prompt;
    active_.push_back(std::move(sequence));
  }
}

// One token of each sequence that is written; the next part of each that is read, up to the most rows. last_rows: where
// the last token of a sequence is, or -1 where it is not part of the batch.
model::Batch Generator::next_batch(std::vector<std::int64_t>& last_rows) const {
  model::Batch batch;
  std::int64_t rows_left = settings_.most_prompt_rows;
  for (const Sequence& sequence : active_) {
    const std::int64_t pending = size(sequence.tokens) - sequence.computed;
    const std::int64_t rows = pending == 1 ? 1 : std::min(pending, rows_left);
    last_rows.push_back(-1);
    if (rows == 0) continue;
    if (pending > 1) rows_left -= rows;
    const auto first = sequence.tokens.begin() + sequence.computed;
    batch.tokens.insert(batch.tokens.end(), first, first + rows);
    batch.parts.push_back({rows, sequence.computed, longest(sequence.request), &sequence.cached});
    if (rows == pending) last_rows.back() = batch.rows() - 1;
  }
  return batch;
}

GeneratedToken Generator::extend(Sequence& sequence, std::span<const float> logits) const {
  const GenerationRequest& request = sequence.request;
  const std::int64_t written = size(sequence.tokens) - size(request.prompt);
  const RandomStream stream{settings_.seed, static_cast<std::uint64_t>(request.index),
                            static_cast<std::uint64_t>(request.sample)};
  const Choice choice =
      choose(logits, settings_.rules, sequence.tokens, stream.uniform(static_cast<std::uint64_t>(written)));
  sequence.tokens.push_back(choice.token);
  GeneratedToken token{request.index, request.sample, choice.token, choice.log_probability, std::nullopt};
  if (std::ranges::find(settings_.end_tokens, choice.token) != settings_.end_tokens.end())
    token.finish = Finish::stop;
  else if (written + 1 >= request.most_tokens)
    token.finish = Finish::length;
  return token;
}

std::vector<GeneratedToken> Generator::step() {
  admit();
  std::vector<std::int64_t> last_rows;
  const model::Batch batch = next_batch(last_rows);
  const at::Tensor hidden = model_.forward(batch, model_.embed(batch), &cache_);
  std::size_t part = 0;
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    if (part < batch.parts.size() && batch.parts[part].cached == &active_[i].cached)
      active_[i].computed += batch.parts[part++].rows;
    if (last_rows[i] >= 0) chosen.push_back(last_rows[i]);
  }
  std::vector<GeneratedToken> tokens;
  if (chosen.empty()) return tokens;
  const at::Tensor rows = hidden.index_select(0, at::tensor(chosen, at::kLong).to(hidden.device()));
  const at::Tensor logits = model_.logits(rows).to(at::kFloat).to(at::kCPU).contiguous();  // [chosen, vocabulary]
  const auto width = static_cast<std::size_t>(logits.size(1));
  const float* row = logits.const_data_ptr<float>();
  std::vector<Sequence> going;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    bool ended = false;
    if (last_rows[i] >= 0) {
      tokens.push_back(extend(active_[i], {row, width}));
      row += width;
      ended = tokens.back().finish.has_value();
    }
    if (!ended) going.push_back(std::move(active_[i]));
  }
  active_ = std::move(going);
  return tokens;
}

}  // namespace muster::generate

#include "generate/generator.hpp"

#include <algorithm>
#include <stdexcept>

namespace muster::generate {
namespace {

std::int64_t size(const std::vector<std::int32_t>& tokens) { return static_cast<std::int64_t>(tokens.size()); }

// The longest it can become: what is reserved, and what its rotary frequencies are made for.
std::int64_t longest(const GenerationRequest& request) { return size(request.prompt) + request.most_tokens; }

}  // namespace

Generator::Generator(StepRunner& runner, BlockPool& pool, GeneratorSettings settings)
    : runner_(runner), pool_(pool), settings_(std::move(settings)) {}

void Generator::add(GenerationRequest request) { waiting_.push_back(std::move(request)); }

void Generator::admit() {
  while (!waiting_.empty() && static_cast<std::int64_t>(active_.size()) < settings_.most_sequences) {
    BlockList blocks(pool_);
    if (!blocks.reserve(longest(waiting_.front()))) {
      if (active_.empty()) throw std::logic_error("a sequence that no cache of this size can hold");
      return;
    }
    Sequence sequence{std::move(waiting_.front()), std::move(blocks), {}, 0};
    waiting_.pop_front();
    sequence.tokens = sequence.request.prompt;
    active_.push_back(std::move(sequence));
  }
}

// One token of each sequence that is written; the next part of each that is read, up to the most rows. drawn: the
// sequences that get a token.
Step Generator::next_step(std::vector<std::size_t>& drawn) {
  Step step;
  std::int64_t rows_left = settings_.most_prompt_rows;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Sequence& sequence = active_[i];
    const GenerationRequest& request = sequence.request;
    const std::int64_t pending = size(sequence.tokens) - sequence.computed;
    const std::int64_t rows = pending == 1 ? 1 : std::min(pending, rows_left);
    if (rows == 0) continue;
    if (pending > 1) rows_left -= rows;
    const auto first = sequence.tokens.begin() + sequence.computed;
    step.batch.tokens.insert(step.batch.tokens.end(), first, first + rows);
    step.batch.parts.push_back({rows, sequence.computed, longest(request), sequence.blocks.blocks()});
    sequence.computed += rows;
    if (rows < pending) continue;
    drawn.push_back(i);
    const RandomStream stream{settings_.seed, static_cast<std::uint64_t>(request.index),
                              static_cast<std::uint64_t>(request.sample)};
    Draw draw{step.batch.rows() - 1,
              stream.uniform(static_cast<std::uint64_t>(size(sequence.tokens) - size(request.prompt)))};
    if (settings_.penalizes_repetition) draw.seen = sequence.tokens;
    step.draws.push_back(std::move(draw));
  }
  return step;
}

GeneratedToken Generator::extend(Sequence& sequence, const tensor::ChosenToken& chosen) const {
  const GenerationRequest& request = sequence.request;
  sequence.tokens.push_back(chosen.token);
  GeneratedToken token{request.index, request.sample, chosen.token, chosen.log_probability, std::nullopt};
  if (std::ranges::find(settings_.end_tokens, chosen.token) != settings_.end_tokens.end())
    token.finish = Finish::stop;
  else if (size(sequence.tokens) - size(request.prompt) >= request.most_tokens)
    token.finish = Finish::length;
  return token;
}

std::vector<GeneratedToken> Generator::step() {
  admit();
  std::vector<std::size_t> drawn;
  runner_.begin(next_step(drawn));
  const std::vector<tensor::ChosenToken> chosen = runner_.finish();
  std::vector<GeneratedToken> tokens;
  std::vector<bool> ended(active_.size());
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    tokens.push_back(extend(active_[drawn[i]], chosen[i]));
    ended[drawn[i]] = tokens.back().finish.has_value();
  }
  std::vector<Sequence> going;
  for (std::size_t i = 0; i < active_.size(); ++i)
    if (!ended[i]) going.push_back(std::move(active_[i]));
  active_ = std::move(going);
  return tokens;
}

}  // namespace muster::generate

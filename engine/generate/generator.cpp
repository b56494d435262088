#include "generate/generator.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "generate/random_stream.hpp"

namespace muster::generate {

Generator::Generator(StepRunner& runner, BlockPool& pool, GeneratorSettings settings)
    : runner_(runner),
      settings_(std::move(settings)),
      groups_(static_cast<std::size_t>(std::max(1, runner.depth()))),
      books_(pool, {groups_, settings_.most_sequences, settings_.prefill_patience}) {}

void Generator::add(Request request) {
  const auto branches = static_cast<std::int64_t>(request.branches.size());
  books_.add(std::move(request));
  load_ += branches;
}

void Generator::stop(std::int64_t index, std::int64_t sample) {
  if (books_.end_branch(index, sample)) --load_;
}

std::vector<GeneratedToken> Generator::step() {
  while (under_way_.size() < groups_ && begin_step()) {
  }
  // That may have ended with everything on the host; then there is room.
  if (under_way_.empty() && !begin_step()) throw std::logic_error("a generator that has nothing to compute");
  const UnderWay first = std::move(under_way_.front());
  under_way_.pop_front();
  const std::vector<tensor::ChosenToken> chosen = runner_.finish();
  std::vector<GeneratedToken> tokens;
  tokens.reserve(chosen.size());
  for (std::size_t i = 0; i < first.draws.size(); ++i) tokens.push_back(accept(first.draws[i], chosen.at(i)));
  for (Sequence* const sequence : first.sequences) settle(*sequence);
  return tokens;
}

bool Generator::is_under_way(std::size_t group) const {
  return std::ranges::any_of(under_way_, [&](const UnderWay& step) { return step.group == group; });
}

bool Generator::begin_step() {
  books_.fill();
  for (std::size_t tries = 0; tries < groups_; ++tries) {
    const std::size_t group = (next_group_ + tries) % groups_;
    if (is_under_way(group)) continue;
    books_.level(group);
    Step step;
    UnderWay record{group};
    for (const Share& share : shares_of(group)) add_share(step, record, share);
    if (step.batch.parts.empty()) continue;
    step.moves = books_.take_moves();
    runner_.begin(step);
    under_way_.push_back(std::move(record));
    next_group_ = group + 1;
    return true;
  }
  return false;
}

// Which sequences of a group compute how many rows, in the group's order.
std::vector<Generator::Share> Generator::shares_of(std::size_t group) {
  std::vector<Share> shares;
  for (const auto& sequence : books_.group(group)) shares.push_back({sequence.get(), 0});
  if (settings_.prefill_patience <= 0) {
    give_rows(shares, [](const Sequence&) { return true; });
  } else if (!give_rows(shares, [](const Sequence& sequence) { return !sequence.is_decoding(); })) {
    give_rows(shares, [](const Sequence& sequence) { return sequence.is_decoding(); });
  }
  std::erase_if(shares, [](const Share& share) { return share.rows == 0; });
  return shares;
}

// The oldest are served first. Whether any got rows.
bool Generator::give_rows(std::vector<Share>& shares, const std::function<bool(const Sequence&)>& is_meant) {
  std::vector<Share*> by_age;
  for (Share& share : shares) by_age.push_back(&share);
  std::ranges::sort(by_age, [](const Share* a, const Share* b) { return a->sequence->is_older_than(*b->sequence); });
  std::int64_t rows_left = settings_.most_prompt_rows;
  bool any = false;
  for (Share* const share : by_age) {
    Sequence& sequence = *share->sequence;
    const std::int64_t rows = sequence.is_decoding() ? 1 : std::min(sequence.pending(), rows_left);
    if (rows == 0 || sequence.evicted || !is_meant(sequence)) continue;
    if (!books_.make_room(sequence, sequence.computed + rows)) continue;
    if (!sequence.is_decoding()) rows_left -= rows;
    share->rows = rows;
    any = sequence.under_way = true;
  }
  return any;
}

void Generator::add_share(Step& step, UnderWay& record, const Share& share) const {
  Sequence& sequence = *share.sequence;
  const auto first = sequence.tokens.begin() + sequence.computed;
  step.batch.tokens.insert(step.batch.tokens.end(), first, first + share.rows);
  step.batch.parts.push_back({share.rows, sequence.computed, longest(*sequence.request), sequence.blocks.blocks(),
                              sequence.request->adapter});
  sequence.computed += share.rows;
  record.sequences.push_back(&sequence);
  add_draws(step, record, share);
}

void Generator::add_draws(Step& step, UnderWay& record, const Share& share) const {
  Sequence& sequence = *share.sequence;
  const auto add = [&](std::size_t branch, Draw draw, bool is_last_given = false) {
    step.draws.push_back(std::move(draw));
    record.draws.push_back({&sequence, branch, is_last_given});
  };
  const std::int64_t last_row = step.batch.rows() - 1;
  if (sequence.is_given()) {
    const std::int64_t first_scored = sequence.prompt_length() + sequence.its_branch().unscored;
    for (std::int64_t next = sequence.computed - share.rows + 1; next <= sequence.computed; ++next)
      if (next >= first_scored)
        add(*sequence.branch,
            {last_row - (sequence.computed - next), 0, sequence.tokens[static_cast<std::size_t>(next)]},
            next + 1 == sequence.length());
    return;
  }
  if (sequence.pending() > 0) return;
  if (!sequence.is_prompt()) return add(*sequence.branch, draw_of(sequence, *sequence.branch, last_row));
  for (std::size_t i = 0; i < sequence.request->branches.size(); ++i) {
    const Branch& branch = sequence.request->branches[i];
    if (branch.given.empty())
      add(i, draw_of(sequence, i, last_row));
    else if (branch.unscored == 0)
      add(i, {last_row, 0, branch.given.front()}, branch.given.size() == 1);
  }
}

Draw Generator::draw_of(const Sequence& sequence, std::size_t index, std::int64_t row) const {
  const Branch& branch = sequence.request->branches[index];
  const RandomStream stream{settings_.seed, static_cast<std::uint64_t>(branch.index),
                            static_cast<std::uint64_t>(branch.sample)};
  Draw draw{row, stream.uniform(static_cast<std::uint64_t>(sequence.length() - sequence.prompt_length()))};
  if (settings_.penalizes_repetition) draw.seen = sequence.tokens;
  return draw;
}

GeneratedToken Generator::accept(const DrawnFor& draw, const tensor::ChosenToken& chosen) {
  Sequence& sequence = *draw.sequence;
  const Branch& branch = sequence.request->branches[draw.branch];
  GeneratedToken token{branch.index, branch.sample, chosen.token, chosen.log_probability};
  const bool is_drawn = branch.given.empty();
  if (is_drawn && std::isnan(chosen.log_probability))  // the model has failed: nothing follows from its token
    token.finish = Finish::stop;
  else if (is_drawn && std::ranges::find(settings_.end_tokens, chosen.token) != settings_.end_tokens.end())
    token.finish = Finish::stop;
  else if (is_drawn ? sequence.length() + 1 - sequence.prompt_length() >= branch.most_tokens : draw.is_last_given)
    token.finish = Finish::length;
  if (token.finish) --load_;
  if (sequence.is_prompt()) {
    if (!token.finish) sequence.waiting.push_back({draw.branch, is_drawn ? std::optional(chosen.token) : std::nullopt});
  } else {
    if (is_drawn) sequence.tokens.push_back(chosen.token);
    sequence.ended = token.finish.has_value();
  }
  return token;
}

// After a step: what is done leaves its group.
void Generator::settle(Sequence& sequence) {
  sequence.under_way = false;
  if (sequence.ended) return books_.remove(sequence);
  if (!sequence.is_prompt() || sequence.pending() > 0) return;
  for (std::size_t i = 0; i < sequence.request->branches.size(); ++i)
    if (sequence.request->branches[i].unscored > 0) sequence.waiting.push_back({i});
  std::ranges::sort(sequence.waiting, {}, &WaitingBranch::branch);
  books_.prompt_is_read(sequence);
}

}  // namespace muster::generate

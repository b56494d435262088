#include "train/rollouts/answer_passes.hpp"

#include <map>
#include <tuple>

namespace muster::train {
namespace {

// Answers that are the same in everything that a pass computes.
struct Distinct {
  const Rollout* answer;
  std::int64_t copies;
};

std::vector<std::int64_t> ends_of(const std::vector<InsertedTokens>& inserted) {
  std::vector<std::int64_t> ends;
  for (const InsertedTokens& span : inserted) ends.insert(ends.end(), {span.begin, span.end});
  return ends;
}

std::vector<Distinct> distinct_answers(const AnswerBatch& batch, data::StepTotals& totals) {
  using Key = std::tuple<std::int64_t, const std::vector<std::int32_t>&, std::vector<std::int64_t>,
                         const std::vector<float>&, double, const std::vector<double>&, const std::vector<double>&>;
  std::map<Key, std::size_t> places;
  std::vector<Distinct> distinct;
  for (const std::uint32_t number : batch.numbers) {
    const Rollout& answer = batch.answers[number];
    ++totals.units;
    if (batch.masks_cut && !answer.ended) continue;
    const bool has_critic = !answer.values.empty();
    if (has_critic && !answer.reward) continue;
    totals.trained_tokens += answer.length();
    if (answer.advantage == 0 && answer.reference.empty() && !has_critic) continue;
    totals.weighed_tokens += answer.length();
    const auto [place, is_new] = places.try_emplace(
        Key{answer.prompt, answer.tokens, ends_of(answer.inserted), answer.log_probabilities, answer.advantage,
            answer.token_advantages, answer.returns},
        distinct.size());
    if (is_new)
      distinct.push_back({&answer, 1});
    else
      ++distinct[place->second].copies;
  }
  return distinct;
}

}  // namespace

void add_answer(data::MicroBatch& pass, const Rollout& answer, std::int64_t copies,
                const std::vector<std::int32_t>& prompt) {
  const std::int64_t first = pass.rows();
  pass.tokens.insert(pass.tokens.end(), prompt.begin(), prompt.end());
  pass.tokens.insert(pass.tokens.end(), answer.tokens.begin(), answer.tokens.end() - 1);
  pass.parts.push_back(pass.rows() - first);
  pass.samples.push_back(answer.prompt);
  pass.labels.push_back(0);
  pass.advantages.push_back(answer.advantage);
  pass.copies.push_back(copies);
  auto inserted = answer.inserted.begin();
  for (std::int64_t i = 0; i < std::ssize(answer.tokens); ++i) {
    if (inserted != answer.inserted.end() && i == inserted->begin) {
      i = inserted->end - 1;
      ++inserted;
      continue;
    }
    pass.trained_rows.push_back(first + std::ssize(prompt) - 1 + i);
    pass.targets.push_back(answer.tokens[static_cast<std::size_t>(i)]);
  }
  pass.sampled.insert(pass.sampled.end(), answer.log_probabilities.begin(), answer.log_probabilities.end());
  pass.reference.insert(pass.reference.end(), answer.reference.begin(), answer.reference.end());
  pass.token_advantages.insert(pass.token_advantages.end(), answer.token_advantages.begin(),
                               answer.token_advantages.end());
  pass.returns.insert(pass.returns.end(), answer.returns.begin(), answer.returns.end());
  pass.values.insert(pass.values.end(), answer.values.begin(), answer.values.end());
}

void fill_passes(data::LoadedStep& step, const AnswerBatch& batch, const data::RankPlace& place) {
  const std::vector<Distinct> distinct = distinct_answers(batch, step.totals);
  const auto prompt_of = [&](const Distinct& one) -> const std::vector<std::int32_t>& {
    return batch.prompts[static_cast<std::size_t>(one.answer->prompt)];
  };
  std::vector<data::Unit> units;
  for (std::uint32_t i = 0; i < distinct.size(); ++i) {
    units.push_back({i});
    step.rows += std::ssize(prompt_of(distinct[i])) + std::ssize(distinct[i].answer->tokens) - 1;
  }
  for (const std::vector<data::Unit>& shared : data::share(units, place)) {
    data::MicroBatch& pass = step.passes.emplace_back();
    for (const data::Unit& unit : shared) {
      const Distinct& one = distinct[unit.front()];
      add_answer(pass, *one.answer, one.copies, prompt_of(one));
    }
  }
  if (step.passes.empty()) step.passes.emplace_back();  // nothing is learnt; every rank takes part in the exchanges
}

}  // namespace muster::train

#include "generate/local_runner.hpp"

#include <algorithm>

namespace muster::generate {
namespace {

constexpr std::size_t rows_at_once = 128;  // of logits, which are as wide as the vocabulary

std::vector<tensor::TokenQuery> queries_of(std::span<const Draw> draws) {
  std::vector<tensor::TokenQuery> queries;
  for (const Draw& draw : draws) queries.push_back({draw.uniform, draw.given, draw.seen});
  return queries;
}

// Every row is the next token of a sequence and is drawn from, in order.
bool only_writes(const Step& step) {
  const auto& parts = step.batch.parts;
  if (step.draws.size() != parts.size()) return false;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].rows != 1 || parts[i].blocks.empty() || step.draws[i].row != static_cast<std::int64_t>(i))
      return false;
  return !parts.empty();
}

}  // namespace

std::vector<tensor::ChosenToken> draw_tokens(model::CausalModel& model, tensor::DeviceOps& ops,
                                             const tensor::SamplingRules& rules, const at::Tensor& hidden,
                                             const std::vector<Draw>& draws) {
  const model::HeadGuard guard = model.use_head();
  std::vector<tensor::ChosenToken> drawn;
  drawn.reserve(draws.size());
  for (std::size_t first = 0; first < draws.size(); first += rows_at_once) {
    const auto some = std::span(draws).subspan(first, std::min(rows_at_once, draws.size() - first));
    std::vector<std::int64_t> rows;
    for (const Draw& draw : some) rows.push_back(draw.row);
    const at::Tensor logits = model.logits(hidden.index_select(0, at::tensor(rows, at::kLong).to(hidden.device())));
    const auto part = ops.token_choice->choose(rules, logits, queries_of(some));
    drawn.insert(drawn.end(), part.begin(), part.end());
  }
  return drawn;
}

void LocalRunner::begin(const Step& step) {
  cache_.move(step.moves);
  if (graphs_ && only_writes(step)) {
    done_.push_back(ops_.token_choice->choose(rules_, graphs_->logits(step.batch), queries_of(step.draws)));
    return;
  }
  const model::Pass pass = model_.prepare(step.batch, &cache_);
  const at::Tensor hidden = model_.forward(pass, model_.embed(pass));
  done_.push_back(draw_tokens(model_, ops_, rules_, hidden, step.draws));
}

std::vector<tensor::ChosenToken> LocalRunner::finish() {
  std::vector<tensor::ChosenToken> drawn = std::move(done_.front());
  done_.pop_front();
  return drawn;
}

}  // namespace muster::generate

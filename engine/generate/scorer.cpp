#include "generate/scorer.hpp"

#include <algorithm>

namespace muster::generate {
namespace {

constexpr std::int64_t rows_at_once = 128;  // of logits, which are as wide as the vocabulary

// The rows whose logits are looked at, and the tokens that are looked up in them.
struct Wanted {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> tokens;
};

Wanted wanted_of(std::span<const ScoreRequest> requests) {
  Wanted wanted;
  std::int64_t first = 0;
  for (const ScoreRequest& request : requests) {
    const auto length = static_cast<std::int64_t>(request.tokens.size());
    for (std::int64_t i = request.context; i < length; ++i) {
      wanted.rows.push_back(first + i - 1);
      wanted.tokens.push_back(request.tokens[static_cast<std::size_t>(i)]);
    }
    first += length;
  }
  return wanted;
}

}  // namespace

std::vector<std::vector<float>> score(model::CausalModel& model, tensor::Arithmetic& arithmetic,
                                      std::span<const ScoreRequest> requests) {
  model::Batch batch;
  for (const ScoreRequest& request : requests) {
    const auto length = static_cast<std::int64_t>(request.tokens.size());
    batch.tokens.insert(batch.tokens.end(), request.tokens.begin(), request.tokens.end());
    batch.parts.push_back({length, 0, length});
  }
  const model::Pass pass = model.prepare(batch, nullptr);
  const at::Tensor hidden = model.forward(pass, model.embed(pass));
  const Wanted wanted = wanted_of(requests);
  std::vector<float> found;
  found.reserve(wanted.rows.size());
  for (std::size_t first = 0; first < wanted.rows.size(); first += rows_at_once) {
    const std::size_t count = std::min<std::size_t>(rows_at_once, wanted.rows.size() - first);
    const at::Tensor rows = at::tensor(at::ArrayRef(wanted.rows).slice(first, count), at::kLong).to(hidden.device());
    std::vector<tensor::TokenQuery> queries;
    for (std::size_t i = first; i < first + count; ++i)
      queries.push_back({0, static_cast<std::int32_t>(wanted.tokens[i]), {}});
    for (const auto& chosen : arithmetic.token_choice->choose({}, model.logits(hidden.index_select(0, rows)), queries))
      found.push_back(chosen.log_probability);
  }
  std::vector<std::vector<float>> scores;
  auto next = found.begin();
  for (const ScoreRequest& request : requests) {
    const auto count = static_cast<std::ptrdiff_t>(request.tokens.size()) - request.context;
    scores.emplace_back(next, next + count);
    next += count;
  }
  return scores;
}

}  // namespace muster::generate

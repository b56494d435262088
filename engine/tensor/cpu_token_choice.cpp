#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/draw_weight.hpp"
#include "kernels/logits.hpp"
#include "tensor/cpu_primitives.hpp"
#include "tensor/cpu_scalar.hpp"
#include "tensor/row_draw.hpp"

namespace muster::tensor {
namespace {

void penalize(std::vector<float>& logits, std::span<const std::int32_t> seen, double penalty) {
  std::vector<std::int32_t> tokens(seen.begin(), seen.end());
  std::ranges::sort(tokens);
  const auto repeated = std::ranges::unique(tokens);
  tokens.erase(repeated.begin(), repeated.end());
  for (const std::int32_t token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= logits.size()) continue;
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = kernels::penalized(logit, static_cast<float>(penalty));
  }
}

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

bool is_given(const TokenQuery& query) { return query.given.has_value(); }

// What one thread draws with, from row to row.
struct TokenDrawer {
  std::vector<float> judged;
  std::vector<std::uint64_t> weights;
  RowCut cut;

  std::int64_t draw(const kernels::ThreadTeam& team, const SamplingRules& rules, std::span<const float> logits,
                    const TokenQuery& query) {
    judged.assign(logits.begin(), logits.end());
    if (rules.repetition_penalty != 1) penalize(judged, query.seen, rules.repetition_penalty);
    const std::int64_t likeliest =
        kernels::argmax_of_row(team, judged.data(), static_cast<std::int64_t>(judged.size()));
    if (rules.temperature == 0) return likeliest;
    weights.resize(judged.size());
    kernels::draw_weights(team, judged.data(), static_cast<std::int64_t>(judged.size()),
                          judged[static_cast<std::size_t>(likeliest)], rules.temperature, weights.data());
    const std::uint64_t total = cut.apply(rules, judged, weights);
    return total == 0 ? likeliest : static_cast<std::int64_t>(draw_token(weights, total, query.uniform));
  }
};

class CpuTokenChoice final : public TokenChoice {
 public:
  explicit CpuTokenChoice(std::shared_ptr<kernels::ThreadTeam> team) : team_(std::move(team)) {}

  std::vector<ChosenToken> choose(const SamplingRules& rules, const at::Tensor& logits,
                                  std::span<const TokenQuery> queries) override {
    const at::Tensor rows = logits.contiguous();
    const at::Tensor undefined = rows.isnan().any(1);
    const std::vector<std::int64_t> tokens = tokens_of(rules, rows, queries);
    std::vector<float> found(tokens.size());
    if (rules.log_probabilities || std::ranges::any_of(queries, is_given))
      kernels::log_softmax_select(*team_, kernel_logits(rows), tokens.data(), found.data(),
                                  rules.temperature > 0 ? rules.temperature : 1);
    std::vector<ChosenToken> chosen;
    chosen.reserve(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i)
      chosen.push_back({static_cast<std::int32_t>(tokens[i]),
                        undefined.const_data_ptr<bool>()[i]                 ? not_a_number
                        : rules.log_probabilities || queries[i].given ? found[i]
                                                                      : 0});
    return chosen;
  }

 private:
  static kernels::Logits kernel_logits(const at::Tensor& rows) {
    return {rows.const_data_ptr(), scalar_of(rows), rows.size(0), rows.size(1)};
  }

  std::vector<std::int64_t> tokens_of(const SamplingRules& rules, const at::Tensor& rows,
                                      std::span<const TokenQuery> queries) {
    std::vector<std::int64_t> tokens(queries.size());
    const bool all_given = std::ranges::all_of(queries, is_given);
    const at::Tensor floats = all_given ? rows : rows.to(at::kFloat);
    if (!all_given) {
      if (rules.temperature == 0 && rules.repetition_penalty == 1)
        kernels::argmax(*team_, kernel_logits(rows), tokens.data());
      else
        draw_rows(rules, floats, queries, tokens);
    }
    for (std::size_t i = 0; i < queries.size(); ++i) {
      if (queries[i].given) tokens[i] = *queries[i].given;
      if (!queries[i].given) tokens[i] = std::clamp<std::int64_t>(tokens[i], 0, rows.size(1) - 1);
      if (tokens[i] < 0 || tokens[i] >= rows.size(1))
        throw std::runtime_error("token " + std::to_string(tokens[i]) + " is asked for, and the model has logits for " +
                                 std::to_string(rows.size(1)));
    }
    return tokens;
  }

  // One share of the rows per thread, so that each has its memory once.
  void draw_rows(const SamplingRules& rules, const at::Tensor& floats, std::span<const TokenQuery> queries,
                 std::vector<std::int64_t>& tokens) {
    const auto width = static_cast<std::size_t>(floats.size(1));
    const float* const values = floats.const_data_ptr<float>();
    const auto count = static_cast<std::int64_t>(queries.size());
    team_->split(count, (count + team_->size() - 1) / team_->size(), [&](std::int64_t begin, std::int64_t end) {
      TokenDrawer draughtsman;
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        if (!queries[i].given) tokens[i] = draughtsman.draw(*team_, rules, {values + i * width, width}, queries[i]);
    });
  }

  std::shared_ptr<kernels::ThreadTeam> team_;
};

}  // namespace

std::unique_ptr<TokenChoice> make_cpu_token_choice(std::shared_ptr<kernels::ThreadTeam> team) {
  return std::make_unique<CpuTokenChoice>(std::move(team));
}

}  // namespace muster::tensor

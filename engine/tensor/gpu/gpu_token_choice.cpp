#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

#include "tensor/gpu/gpu_primitives.hpp"
#include "tensor/gpu/gpu_scalar.hpp"

namespace muster::tensor {
namespace {

// What the kernels read, as 64-bit numbers in one buffer: uniforms, given, where seen begins, seen.
std::vector<std::int64_t> numbers_of(const SamplingRules& rules, std::span<const TokenQuery> queries) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(3 * queries.size() + 1);
  for (const TokenQuery& query : queries) numbers.push_back(std::bit_cast<std::int64_t>(query.uniform));
  for (const TokenQuery& query : queries) numbers.push_back(query.given.value_or(-1));
  std::int64_t begin = 0;
  const bool penalizes = rules.repetition_penalty != 1;
  for (const TokenQuery& query : queries) {
    numbers.push_back(begin);
    if (penalizes) begin += static_cast<std::int64_t>(query.seen.size());
  }
  numbers.push_back(begin);
  if (penalizes)
    for (const TokenQuery& query : queries) numbers.insert(numbers.end(), query.seen.begin(), query.seen.end());
  return numbers;
}

void check_given(const at::Tensor& logits, std::span<const TokenQuery> queries) {
  for (const TokenQuery& query : queries)
    if (query.given && (*query.given < 0 || *query.given >= logits.size(1)))
      throw std::runtime_error("token " + std::to_string(*query.given) +
                               " is asked for, and the model has logits for " + std::to_string(logits.size(1)));
}

class GpuTokenChoice final : public TokenChoice {
 public:
  std::vector<ChosenToken> choose(const SamplingRules& rules, const at::Tensor& logits,
                                  std::span<const TokenQuery> queries) override {
    check_given(logits, queries);
    const at::Tensor rows = logits.contiguous();
    const auto count = static_cast<std::int64_t>(queries.size());
    const std::vector<std::int64_t> numbers = numbers_of(rules, queries);
    const at::Tensor device = to_device(numbers, rows.device());
    const auto* data = device.const_data_ptr<std::int64_t>();
    const bool greedy = rules.temperature == 0 && rules.repetition_penalty == 1 && !rules.log_probabilities &&
                        std::ranges::none_of(queries, [](const TokenQuery& query) { return query.given.has_value(); });
    at::Tensor judged;
    if (!greedy) judged = at::empty({count, rows.size(1)}, rows.options().dtype(at::kFloat));
    at::Tensor results = at::empty({3 * count}, rows.options().dtype(at::kLong));
    results.narrow(0, 2 * count, count).copy_(rows.isnan().any(1));
    auto* tokens = results.mutable_data_ptr<std::int64_t>();
    const cuda::ChoiceRows kernel_rows{rows.const_data_ptr(), count,
                                       rows.size(1),          reinterpret_cast<const double*>(data),
                                       data + count,          data + 2 * count,
                                       data + 3 * count + 1,  greedy ? nullptr : judged.mutable_data_ptr<float>()};
    check_launch(cuda::choose_tokens(current_stream(rows), scalar_of(rows),
                                     {rules.temperature, rules.top_k, rules.top_p, rules.min_p,
                                      static_cast<float>(rules.repetition_penalty), rules.log_probabilities},
                                     kernel_rows, {tokens, reinterpret_cast<float*>(tokens + count)}));
    return read(results, count);
  }

 private:
  // Through pinned memory, so that the host does not wait. The results are waited for, which is after the copy.
  at::Tensor to_device(const std::vector<std::int64_t>& numbers, at::Device device) {
    const at::Tensor host = pinned(staging_, static_cast<std::int64_t>(numbers.size()));
    std::ranges::copy(numbers, host.mutable_data_ptr<std::int64_t>());
    return host.to(device, true);
  }

  // This many numbers of pinned memory, which is kept for the next time.
  static at::Tensor pinned(at::Tensor& kept, std::int64_t count) {
    if (!kept.defined() || kept.numel() < count)
      kept = at::empty({2 * count}, at::TensorOptions().dtype(at::kLong).pinned_memory(true));
    return kept.narrow(0, 0, count);
  }

  std::vector<ChosenToken> read(const at::Tensor& results, std::int64_t count) {
    at::Tensor host = pinned(returned_, results.numel());
    host.copy_(results, true);
    c10::cuda::getCurrentCUDAStream(results.device().index()).synchronize();
    const auto* tokens = host.const_data_ptr<std::int64_t>();
    const auto* found = reinterpret_cast<const float*>(tokens + count);
    std::vector<ChosenToken> chosen;
    chosen.reserve(static_cast<std::size_t>(count));
    // A row without a single number has no token.
    for (std::int64_t i = 0; i < count; ++i)
      chosen.push_back({static_cast<std::int32_t>(std::max<std::int64_t>(tokens[i], 0)),
                        tokens[2 * count + i] != 0 ? std::numeric_limits<float>::quiet_NaN() : found[i]});
    return chosen;
  }

  at::Tensor staging_;
  at::Tensor returned_;
};

}  // namespace

std::unique_ptr<TokenChoice> make_gpu_token_choice() { return std::make_unique<GpuTokenChoice>(); }

}  // namespace muster::tensor

// From logits to tokens: one block of threads for each row. Weights are whole numbers, so that sums do not depend on
// the order in which threads add.
#include "cuda/dispatch.cuh"
#include "cuda/few_tokens.cuh"
#include "cuda/pack.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int digits = 256;

struct Likeliest {
  float logit = -INFINITY;
  std::int64_t token = -1;
};

// A NaN is never chosen; among equals the lowest token is.
__device__ Likeliest likelier(Likeliest a, Likeliest b) {
  if (b.token < 0) return a;
  if (a.token < 0) return b;
  if (a.logit != b.logit) return a.logit > b.logit ? a : b;
  return a.token < b.token ? a : b;
}

// The likeliest of all threads'.
__device__ Likeliest join_likeliest(Likeliest own) {
  __shared__ float logits[threads / lanes];
  __shared__ std::int64_t tokens[threads / lanes];
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    Likeliest other;
    other.logit = __shfl_xor_sync(whole_warp, own.logit, offset);
    other.token = __shfl_xor_sync(whole_warp, static_cast<long long>(own.token), offset);
    own = likelier(own, other);
  }
  __syncthreads();
  if (threadIdx.x % lanes == 0) logits[threadIdx.x / lanes] = own.logit, tokens[threadIdx.x / lanes] = own.token;
  __syncthreads();
  for (int i = 0; i < threads / lanes; ++i) own = likelier(own, {logits[i], tokens[i]});
  return own;
}

// Among the tokens that this thread looks at.
__device__ Likeliest own_likeliest(const float* judged, std::int64_t width) {
  Likeliest own;
  for (std::int64_t token = threadIdx.x; token < width; token += threads)
    if (!isnan(judged[token])) own = likelier(own, {judged[token], token});
  return own;
}

// ln of Σ e^((logit - highest) / temperature)
__device__ float log_sum(const float* logits, std::int64_t width, float highest, float temperature) {
  float sum = 0;
  for (std::int64_t token = threadIdx.x; token < width; token += threads)
    sum += expf((logits[token] - highest) / temperature);
  return logf(block_sum<threads>(sum));
}

// Walks down the digits of the keys. value(token) is what a token counts for; enough(sum) says whether what was counted
// from the top suffices. Returns the key at which it does, and what was counted above it; key 0 where it never does.
struct Cut {
  std::uint32_t key = 0;
  Count above = 0;
};

template <class Value, class Enough>
__device__ Cut find_cut(const TokenRow& row, Value value, Enough enough) {
  __shared__ Count counts[digits];
  __shared__ Cut cut;
  __shared__ bool found;
  __syncthreads();
  if (threadIdx.x == 0) cut = Cut{}, found = true;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = static_cast<int>(threadIdx.x); i < digits; i += threads) counts[i] = 0;
    __syncthreads();
    const std::uint32_t above = shift == 24 ? 0 : cut.key >> (shift + 8);
    if (found)
      for (std::int64_t token = threadIdx.x; token < row.width; token += threads) {
        if (isnan(row.judged[token])) continue;
        const std::uint32_t key = ordered(row.judged[token]);
        if (shift < 24 && key >> (shift + 8) != above) continue;
        if (const Count counted = value(token); counted > 0) atomicAdd(&counts[key >> shift & (digits - 1)], counted);
      }
    __syncthreads();
    if (threadIdx.x == 0 && found) {
      int digit = digits - 1;
      while (digit >= 0 && !enough(cut.above + counts[digit])) cut.above += counts[digit--];
      found = digit >= 0;
      cut.key = found ? cut.key | static_cast<std::uint32_t>(digit) << shift : 0;
    }
    __syncthreads();
  }
  return cut;
}

__device__ void keep_highest(TokenRow& row, std::int64_t count) {
  if (count <= 0 || count >= row.width) return;
  row.least =
      find_cut(
          row, [](std::int64_t) { return Count{1}; }, [&](Count sum) { return sum >= static_cast<Count>(count); })
          .key;
}

__device__ void keep_likely(TokenRow& row, double share) {
  if (share >= 1) return;
  Count own = 0;
  for (std::int64_t token = threadIdx.x; token < row.width; token += threads) own += row.weight_after_top_k(token);
  const double wanted = share * static_cast<double>(block_sum<threads>(own));
  const Cut cut = find_cut(
      row, [&](std::int64_t token) { return row.weight_after_top_k(token); },
      [&](Count sum) { return static_cast<double>(sum) >= wanted; });
  const std::int64_t ties = ties_within(row, cut.key, cut.above, wanted);
  if (cut.key == 0) return;
  row.last = cut.key;
  row.ties = ties;
}

// Each thread has consecutive tokens, so that sums run in the order of the vocabulary.
__device__ std::int64_t draw(const TokenRow& row, double uniform, std::int64_t likeliest) {
  const std::int64_t share = (row.width + threads - 1) / threads;
  const std::int64_t begin = min(row.width, share * static_cast<std::int64_t>(threadIdx.x));
  const std::int64_t end = min(row.width, begin + share);
  long long own_ties = 0;
  if (row.ties != INT64_MAX)
    for (std::int64_t token = begin; token < end; ++token) own_ties += row.is_tie(token) ? 1 : 0;
  const long long ties_before = exclusive_sum(own_ties);
  const auto walk = [&](auto&& see) {
    std::int64_t ties = ties_before;
    for (std::int64_t token = begin; token < end; ++token) {
      const Count weight = row.final_weight(token, ties);
      if (row.is_tie(token)) ++ties;
      if (!see(token, weight)) return;
    }
  };
  Count own = 0;
  walk([&](std::int64_t, Count weight) {
    own += weight;
    return true;
  });
  const Count total = block_sum<threads>(own);
  const Count before = exclusive_sum(own);
  if (total == 0) return likeliest;
  const Count target = target_of(uniform, total);
  __shared__ std::int64_t drawn;
  if (before <= target && target < before + own) {
    Count sum = before;
    walk([&](std::int64_t token, Count weight) {
      sum += weight;
      drawn = token;
      return sum <= target;
    });
  }
  __syncthreads();
  return drawn;
}

__device__ std::int64_t draw_from_all(TokenRow row, const ChoiceRules& rules, double uniform, std::int64_t likeliest) {
  keep_highest(row, rules.top_k);
  keep_likely(row, rules.top_p);
  row.least_weight = rules.min_p * kernels::certain_weight;
  return draw(row, uniform, likeliest);
}

// Only the likeliest token is wanted: the logits are read once, as they are.
template <class T>
__global__ void __launch_bounds__(threads) take_likeliest(ChoiceRows rows, bool packed, ChoiceResults results) {
  constexpr int count = 16 / sizeof(T);
  const T* logits = static_cast<const T*>(rows.logits) + static_cast<std::int64_t>(blockIdx.x) * rows.width;
  Likeliest own;
  const std::int64_t packs = packed ? rows.width / count : 0;
#pragma unroll 4
  for (std::int64_t pack = threadIdx.x; pack < packs; pack += threads) {
    const auto several = reinterpret_cast<const Pack<T>*>(logits)[pack];
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (const float logit = widen(several.values[i]); !isnan(logit)) own = likelier(own, {logit, pack * count + i});
  }
  for (std::int64_t token = packs * count + threadIdx.x; token < rows.width; token += threads)
    if (const float logit = widen(logits[token]); !isnan(logit)) own = likelier(own, {logit, token});
  own = join_likeliest(own);
  if (threadIdx.x == 0) {
    results.tokens[blockIdx.x] = own.token;
    results.log_probabilities[blockIdx.x] = 0;
  }
}

template <class T>
__global__ void __launch_bounds__(threads) judge(ChoiceRules rules, ChoiceRows rows) {
  const std::int64_t row = blockIdx.x;
  const T* logits = static_cast<const T*>(rows.logits) + row * rows.width;
  float* judged = rows.judged + row * rows.width;
  for (std::int64_t token = threadIdx.x; token < rows.width; token += threads) judged[token] = widen(logits[token]);
  if (rules.repetition_penalty == 1 || rows.given[row] >= 0) return;
  __syncthreads();
  for (std::int64_t at = rows.seen_begin[row] + threadIdx.x; at < rows.seen_begin[row + 1]; at += threads)
    if (const std::int64_t token = rows.seen[at]; token >= 0 && token < rows.width)
      judged[token] = kernels::penalized(widen(logits[token]), rules.repetition_penalty);
}

// The raw logits again, for the log-probability.
template <class T>
__device__ float log_probability(const T* logits, float* scratch, std::int64_t width, std::int64_t token,
                                 float temperature) {
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < width; i += threads) scratch[i] = widen(logits[i]);
  __syncthreads();
  const float highest = join_likeliest(own_likeliest(scratch, width)).logit;
  return (scratch[token] - highest) / temperature - log_sum(scratch, width, highest, temperature);
}

template <class T>
__global__ void __launch_bounds__(threads) choose(ChoiceRules rules, ChoiceRows rows, ChoiceResults results) {
  const std::int64_t index = blockIdx.x;
  float* judged = rows.judged + index * rows.width;
  std::int64_t token = rows.given[index];
  const bool given = token >= 0;
  if (!given) {
    const Likeliest own = own_likeliest(judged, rows.width), likeliest = join_likeliest(own);
    token = likeliest.token;
    if (token >= 0 && rules.temperature > 0) {
      const TokenRow row{judged, rows.width, likeliest.logit, rules.temperature};
      const std::uint32_t highest = own.token < 0 ? 0 : ordered(own.logit);
      token = draw_from_few(row, rules, highest, rows.uniforms[index], likeliest.token);
      if (token < 0) token = draw_from_all(row, rules, rows.uniforms[index], likeliest.token);
    }
  }
  float found = 0;
  if (token >= 0 && (given || rules.log_probabilities))
    found = log_probability(static_cast<const T*>(rows.logits) + index * rows.width, judged, rows.width, token,
                            rules.temperature > 0 ? static_cast<float>(rules.temperature) : 1.0f);
  if (threadIdx.x == 0) {
    results.tokens[index] = token;
    results.log_probabilities[index] = found;
  }
}

}  // namespace

LaunchError choose_tokens(Stream stream, Scalar scalar, const ChoiceRules& rules, const ChoiceRows& rows,
                          const ChoiceResults& results) {
  if (rows.rows == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const auto on = static_cast<cudaStream_t>(stream);
    const auto blocks = static_cast<unsigned>(rows.rows);
    if (rows.judged == nullptr) {
      const bool packed = is_aligned(rows.logits, 16) && rows.width * sizeof(T) % 16 == 0;
      take_likeliest<T><<<blocks, threads, 0, on>>>(rows, packed, results);
      return;
    }
    judge<T><<<blocks, threads, 0, on>>>(rules, rows);
    choose<T><<<blocks, threads, 0, on>>>(rules, rows, results);
  });
}

}  // namespace muster::cuda

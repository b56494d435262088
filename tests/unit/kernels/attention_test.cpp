#include "kernels/attention.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "numbers.hpp"

namespace muster::kernels {
namespace {

constexpr Scalar scalars[] = {Scalar::float32, Scalar::bfloat16, Scalar::float16};

// One sequence with all its queries, keys and values.
struct Sequence {
  AttentionShape shape;
  std::int64_t length;
  Numbers queries, keys, values;

  Sequence(const AttentionShape& asked, std::int64_t tokens, Scalar scalar, unsigned seed = 1, float width = 1.0F)
      : shape(asked),
        length(tokens),
        queries(Numbers::drawn(scalar, tokens * asked.heads * asked.head_size, seed, width)),
        keys(Numbers::drawn(scalar, tokens * asked.kv_heads * asked.head_size, seed + 100, width)),
        values(Numbers::drawn(scalar, tokens * asked.kv_heads * asked.head_size, seed + 200)) {}

  std::int64_t query_step() const { return shape.heads * shape.head_size; }
  std::int64_t key_step() const { return shape.kv_heads * shape.head_size; }
};

// A cache in blocks that holds the sequence up to `known`; all else in it is NaN, and tokens are wider than they need
// be.
struct Cache {
  std::vector<Numbers> keys, values;
  std::vector<const void*> key_pointers, value_pointers;
  std::int64_t block_tokens, stride;

  Cache(const Sequence& sequence, std::int64_t known, std::int64_t block)
      : block_tokens(block), stride(sequence.key_step() + 3) {
    const Scalar scalar = sequence.keys.scalar();
    for (std::int64_t start = 0; start < known; start += block) {
      for (auto* blocks : {&keys, &values}) {
        const Numbers& source = blocks == &keys ? sequence.keys : sequence.values;
        Numbers& target = blocks->emplace_back(Numbers::filled(scalar, block * stride, std::nanf("")));
        for (std::int64_t t = start; t < std::min(known, start + block); ++t) {
          std::memcpy(target.at((t - start) * stride), source.at(t * sequence.key_step()),
                      static_cast<std::size_t>(sequence.key_step()) * bytes_per_element(scalar));
        }
      }
    }
    for (const Numbers& numbers : keys) key_pointers.push_back(numbers.data());
    for (const Numbers& numbers : values) value_pointers.push_back(numbers.data());
  }

  KeyValueBlocks blocks() const { return {block_tokens, key_pointers.data(), value_pointers.data(), stride}; }
};

// Queries first … first + rows of the sequence, from its tensors in one piece, which end where the last query is.
Numbers attend(ThreadTeam& team, const Sequence& sequence, std::int64_t first, std::int64_t rows) {
  Numbers output(sequence.queries.scalar(), rows * sequence.query_step());
  const void* keys = sequence.keys.data();
  const void* values = sequence.values.data();
  const AttentionSequence one{.queries = sequence.queries.at(first * sequence.query_step()),
                              .output = output.data(),
                              .rows = rows,
                              .position = first,
                              .cache = {sequence.length, &keys, &values, sequence.key_step()}};
  attention(team, sequence.shape, sequence.queries.scalar(), {&one, 1});
  return output;
}

// The textbook's, in double.
std::vector<double> expected_attention(const Sequence& sequence, std::vector<double>* log_sums = nullptr) {
  const AttentionShape& shape = sequence.shape;
  std::vector<double> result(static_cast<std::size_t>(sequence.length * sequence.query_step()));
  if (log_sums != nullptr) log_sums->assign(static_cast<std::size_t>(sequence.length * shape.heads), 0);
  for (std::int64_t i = 0; i < sequence.length; ++i) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const std::int64_t query = i * sequence.query_step() + h * shape.head_size;
      const std::int64_t kv = h / (shape.heads / shape.kv_heads) * shape.head_size;
      const std::int64_t first = shape.window ? std::max<std::int64_t>(0, i - *shape.window + 1) : 0;
      std::vector<double> scores;
      for (std::int64_t j = first; j <= i; ++j) {
        double dot = 0;
        for (std::int64_t d = 0; d < shape.head_size; ++d) {
          dot += sequence.queries[query + d] * sequence.keys[j * sequence.key_step() + kv + d];
        }
        scores.push_back(dot * static_cast<double>(shape.scale));
      }
      const double most = *std::ranges::max_element(scores);
      double sum = 0;
      for (double& score : scores) sum += score = std::exp(score - most);
      for (std::int64_t j = first; j <= i; ++j) {
        for (std::int64_t d = 0; d < shape.head_size; ++d) {
          result[static_cast<std::size_t>(query + d)] +=
              scores[static_cast<std::size_t>(j - first)] / sum * sequence.values[j * sequence.key_step() + kv + d];
        }
      }
      if (log_sums != nullptr) (*log_sums)[static_cast<std::size_t>(h * sequence.length + i)] = most + std::log(sum);
    }
  }
  return result;
}

AttentionShape shape_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_size,
                        std::optional<std::int64_t> window = std::nullopt) {
  return {heads, kv_heads, head_size, 1.0F / std::sqrt(static_cast<float>(head_size)), window};
}

TEST(Attention, IsTheTextbooksForAllHeadSizesGroupsAndWindows) {
  ThreadTeam team(2);
  for (const auto& [shape, length] :
       std::vector<std::pair<AttentionShape, std::int64_t>>{{shape_of(1, 1, 8), 70},
                                                            {shape_of(4, 2, 16), 130},
                                                            {shape_of(9, 3, 64), 100},
                                                            {shape_of(3, 1, 80), 65},
                                                            {shape_of(2, 2, 128), 129},
                                                            {shape_of(2, 1, 256), 66},
                                                            {shape_of(5, 5, 7), 64},
                                                            {shape_of(4, 1, 33, 1), 40},
                                                            {shape_of(6, 2, 40, 37), 200},
                                                            {shape_of(2, 1, 64, 64), 200},
                                                            {shape_of(2, 2, 20, 1000), 90},
                                                            {shape_of(130, 1, 9), 20}}) {
    const Sequence sequence(shape, length, Scalar::float32);
    EXPECT_LT(relative_error(attend(team, sequence, 0, length), expected_attention(sequence)), 2e-6)
        << shape.head_size << " " << length;
  }
}

TEST(Attention, IsTheTextbooksRoundedOnceForNarrowScalars) {
  ThreadTeam team(2);
  for (const Scalar scalar : {Scalar::bfloat16, Scalar::float16}) {
    const Sequence sequence(shape_of(4, 2, 24), 150, scalar);
    const auto expected = expected_attention(sequence);
    const Numbers seen = attend(team, sequence, 0, 150);
    for (std::int64_t i = 0; i < seen.count(); ++i) {
      const double right = expected[static_cast<std::size_t>(i)];
      ASSERT_NEAR(seen[i], right, std::abs(right) * rounding_of(scalar) + 1e-5);
    }
  }
}

TEST(Attention, TakesLargeAndTinyScores) {
  ThreadTeam team(1);
  for (const float width : {30.0F, 1e-20F}) {
    const Sequence sequence(shape_of(2, 1, 32), 150, Scalar::float32, 1, width);
    EXPECT_LT(relative_error(attend(team, sequence, 0, 150), expected_attention(sequence)), 1e-4) << width;
  }
}

TEST(Attention, GivesTheLogarithmOfTheSumOfPowers) {
  ThreadTeam team(2);
  const Sequence sequence(shape_of(6, 2, 24, 90), 150, Scalar::float32, 1, 2.0F);
  std::vector<double> expected;
  expected_attention(sequence, &expected);
  Numbers output(Scalar::float32, sequence.queries.count()), log_sums(Scalar::float32, 6 * 150);
  const void* keys = sequence.keys.data();
  const void* values = sequence.values.data();
  const AttentionSequence one{.queries = sequence.queries.data(),
                              .output = output.data(),
                              .rows = 150,
                              .cache = {150, &keys, &values, sequence.key_step()},
                              .log_sum = log_sums.floats()};
  attention(team, sequence.shape, Scalar::float32, {&one, 1});
  EXPECT_LT(relative_error(log_sums, expected), 1e-6);
}

TEST(Attention, ARowHasTheSameBitsAmongAnyNumberOfRowsOnAnyNumberOfThreads) {
  constexpr std::int64_t most = 257;
  ThreadTeam one(1), two(2);
  for (const auto window : {std::optional<std::int64_t>(), std::optional<std::int64_t>(50)}) {
    for (const Scalar scalar : scalars) {
      const Sequence sequence(shape_of(4, 2, 24, window), most, scalar);
      const Numbers all = attend(one, sequence, 0, most);
      for (std::int64_t rows = 1; rows <= most; ++rows) {
        const std::int64_t first = rows * 7 % (most - rows + 1);
        for (ThreadTeam* team : {&one, &two}) {
          ASSERT_TRUE(attend(*team, sequence, first, rows)
                          .same_bits(0, all, first * sequence.query_step(), rows * sequence.query_step()))
              << rows << " rows from " << first;
        }
      }
    }
  }
}

TEST(Attention, PrefillInPiecesAndTokenByTokenFromAnyCacheHasTheSameBits) {
  constexpr std::int64_t length = 300;
  ThreadTeam team(2);
  for (const auto window : {std::optional<std::int64_t>(), std::optional<std::int64_t>(70)}) {
    for (const Scalar scalar : scalars) {
      for (const std::int64_t head_size : {16, 20}) {  // values are read in place, and from a copy
        const Sequence sequence(shape_of(6, 2, head_size, window), length, scalar);
        const Numbers all = attend(team, sequence, 0, length);
        for (const auto& [piece, block] : {std::pair{1, 64}, {1, 128}, {7, 64}, {64, 192}, {100, 64}, {299, 320}}) {
          for (std::int64_t first = 0; first < length; first += piece) {
            const std::int64_t rows = std::min<std::int64_t>(piece, length - first);
            const Cache cache(sequence, first + rows, block);
            Numbers output(scalar, rows * sequence.query_step());
            const AttentionSequence one{.queries = sequence.queries.at(first * sequence.query_step()),
                                        .output = output.data(),
                                        .rows = rows,
                                        .position = first,
                                        .cache = cache.blocks()};
            attention(team, sequence.shape, scalar, {&one, 1});
            ASSERT_TRUE(output.same_bits(0, all, first * sequence.query_step(), output.count()))
                << "pieces of " << piece << ", blocks of " << block << ", from " << first;
          }
        }
      }
    }
  }
}

TEST(Attention, RaggedCompanyDoesNotChangeASequence) {
  ThreadTeam one(1), three(3);
  const AttentionShape shape = shape_of(6, 3, 32);
  std::vector<Sequence> sequences;
  for (const std::int64_t length : {1, 65, 130, 33, 200, 64}) {
    sequences.emplace_back(shape, length, Scalar::float32, static_cast<unsigned>(length));
  }
  // Some at their beginning, some in the middle, some at their last token.
  const std::int64_t firsts[] = {0, 0, 129, 10, 100, 63};
  std::vector<Cache> caches;
  std::vector<Numbers> outputs;
  std::vector<AttentionSequence> batch;
  for (const Sequence& sequence : sequences) caches.emplace_back(sequence, sequence.length, 64);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    outputs.emplace_back(Scalar::float32, (sequences[i].length - firsts[i]) * sequences[i].query_step());
  }
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    batch.push_back({.queries = sequences[i].queries.at(firsts[i] * sequences[i].query_step()),
                     .output = outputs[i].data(),
                     .rows = sequences[i].length - firsts[i],
                     .position = firsts[i],
                     .cache = caches[i].blocks()});
  }
  for (int turn = 0; turn < 3; ++turn) {
    std::ranges::rotate(batch, batch.begin() + 2);
    attention(three, shape, Scalar::float32, batch);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      EXPECT_TRUE(outputs[i] == attend(one, sequences[i], firsts[i], sequences[i].length - firsts[i])) << i;
    }
  }
}

TEST(Attention, LaterTokensDoNotReachEarlierOnesEvenWhenTheyAreNotNumbers) {
  ThreadTeam team(1);
  Sequence sequence(shape_of(3, 1, 24), 100, Scalar::float32);
  const Numbers clean = attend(team, sequence, 0, 100);
  sequence.keys.set(90 * 24 + 5, std::nanf(""));
  sequence.values.set(90 * 24 + 7, std::numeric_limits<float>::infinity());
  const Numbers seen = attend(team, sequence, 0, 100);
  EXPECT_TRUE(seen.same_bits(0, clean, 0, 90 * sequence.query_step()));
  EXPECT_TRUE(std::isnan(seen[90 * sequence.query_step()]));
}

TEST(Attention, EveryVectorSetGivesTheSameBits) {
  ThreadTeam portable(1, VectorSet::portable);
  for (const Scalar scalar : scalars) {
    for (const std::int64_t head_size : {16, 21}) {
      const Sequence sequence(shape_of(4, 2, head_size, 75), 140, scalar);
      const Numbers expected = attend(portable, sequence, 0, 140);
      for (const VectorSet set : available_sets()) {
        ThreadTeam team(2, set);
        EXPECT_TRUE(attend(team, sequence, 0, 140) == expected) << name(set);
      }
    }
  }
}

TEST(Attention, RefusesShapesThatMakeNoSense) {
  ThreadTeam team(1);
  for (const AttentionShape& shape :
       {shape_of(3, 2, 16), shape_of(2, 2, 257), shape_of(0, 1, 16), shape_of(1, 1, 16, 0)}) {
    EXPECT_THROW(attention(team, shape, Scalar::float32, {}), std::invalid_argument);
    EXPECT_THROW(attention_gradient(team, shape, Scalar::float32, {}), std::invalid_argument);
  }
}

// ---- backward ----

struct Gradients {
  Numbers queries, keys, values;
  bool operator==(const Gradients&) const = default;
};

// All sequences in one call.
std::vector<Gradients> back(ThreadTeam& team, const std::vector<Sequence>& sequences,
                            const std::vector<Numbers>& output_gradients) {
  std::vector<Gradients> results;
  std::vector<Numbers> outputs, log_sums;
  for (const Sequence& s : sequences) {
    const Scalar scalar = s.queries.scalar();
    outputs.emplace_back(scalar, s.queries.count());
    log_sums.emplace_back(Scalar::float32, s.length * s.shape.heads);
    results.push_back(
        {Numbers(scalar, s.queries.count()), Numbers(scalar, s.keys.count()), Numbers(scalar, s.keys.count())});
  }
  std::vector<AttentionGradient> batch;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& s = sequences[i];
    const void* keys = s.keys.data();
    const void* values = s.values.data();
    const AttentionSequence one{.queries = s.queries.data(),
                                .output = outputs[i].data(),
                                .rows = s.length,
                                .cache = {s.length, &keys, &values, s.key_step()},
                                .log_sum = log_sums[i].floats()};
    attention(team, s.shape, s.queries.scalar(), {&one, 1});
    batch.push_back({s.queries.data(), keys, values, outputs[i].data(), log_sums[i].floats(),
                     output_gradients[i].data(), results[i].queries.data(), results[i].keys.data(),
                     results[i].values.data(), s.length});
  }
  attention_gradient(team, sequences[0].shape, sequences[0].queries.scalar(), batch);
  return results;
}

// Chain rule in double.
struct ExpectedGradients {
  std::vector<double> queries, keys, values;
};
ExpectedGradients expected_back(const Sequence& s, const Numbers& gradient) {
  const AttentionShape& shape = s.shape;
  ExpectedGradients result{std::vector<double>(static_cast<std::size_t>(s.queries.count())),
                           std::vector<double>(static_cast<std::size_t>(s.keys.count())),
                           std::vector<double>(static_cast<std::size_t>(s.keys.count()))};
  const auto scale = static_cast<double>(shape.scale);
  std::vector<double> log_sums;
  const auto output = expected_attention(s, &log_sums);
  for (std::int64_t i = 0; i < s.length; ++i) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const std::int64_t query = i * s.query_step() + h * shape.head_size;
      const std::int64_t kv = h / (shape.heads / shape.kv_heads) * shape.head_size;
      double row_sum = 0;
      for (std::int64_t d = 0; d < shape.head_size; ++d) {
        row_sum += output[static_cast<std::size_t>(query + d)] * gradient[query + d];
      }
      for (std::int64_t j = shape.window ? std::max<std::int64_t>(0, i - *shape.window + 1) : 0; j <= i; ++j) {
        const std::int64_t key = j * s.key_step() + kv;
        double dot = 0, slope = 0;
        for (std::int64_t d = 0; d < shape.head_size; ++d) {
          dot += s.queries[query + d] * s.keys[key + d];
          slope += gradient[query + d] * s.values[key + d];
        }
        const double weight = std::exp(dot * scale - log_sums[static_cast<std::size_t>(h * s.length + i)]);
        for (std::int64_t d = 0; d < shape.head_size; ++d) {
          const double score_slope = weight * (slope - row_sum) * scale;
          result.queries[static_cast<std::size_t>(query + d)] += score_slope * s.keys[key + d];
          result.keys[static_cast<std::size_t>(key + d)] += score_slope * s.queries[query + d];
          result.values[static_cast<std::size_t>(key + d)] += weight * gradient[query + d];
        }
      }
    }
  }
  return result;
}

TEST(AttentionGradient, IsTheChainRulesForHeadSizesGroupsAndWindows) {
  ThreadTeam team(2);
  for (const auto& [shape, length] :
       std::vector<std::pair<AttentionShape, std::int64_t>>{{shape_of(1, 1, 8), 70},
                                                            {shape_of(6, 2, 24), 130},
                                                            {shape_of(2, 1, 64), 1},
                                                            {shape_of(3, 3, 33), 65},
                                                            {shape_of(4, 2, 16, 20), 150},
                                                            {shape_of(2, 1, 20, 100), 200},
                                                            {shape_of(1, 1, 256), 40}}) {
    const std::vector<Sequence> one{Sequence(shape, length, Scalar::float32)};
    const std::vector<Numbers> gradient{Numbers::drawn(Scalar::float32, one[0].queries.count(), 7)};
    const Gradients seen = back(team, one, gradient)[0];
    const ExpectedGradients expected = expected_back(one[0], gradient[0]);
    EXPECT_LT(relative_error(seen.queries, expected.queries), 5e-6) << shape.head_size;
    EXPECT_LT(relative_error(seen.keys, expected.keys), 5e-6) << shape.head_size;
    EXPECT_LT(relative_error(seen.values, expected.values), 5e-6) << shape.head_size;
  }
}

TEST(AttentionGradient, DependsOnNeitherThreadsNorCompanyNorVectorSet) {
  const AttentionShape shape = shape_of(4, 2, 24, 100);
  for (const Scalar scalar : scalars) {
    std::vector<Sequence> sequences;
    std::vector<Numbers> gradients;
    for (const std::int64_t length : {130, 1, 70}) {
      sequences.emplace_back(shape, length, scalar, static_cast<unsigned>(length));
      gradients.push_back(Numbers::drawn(scalar, sequences.back().queries.count(), 9));
    }
    ThreadTeam reference(1, VectorSet::portable);
    std::vector<Gradients> alone;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      alone.push_back(back(reference, {sequences[i]}, {gradients[i]})[0]);
    }
    for (const VectorSet set : available_sets()) {
      for (const int threads : {1, 2, 3}) {
        ThreadTeam team(threads, set);
        EXPECT_TRUE(back(team, sequences, gradients) == alone) << name(set) << " " << threads;
      }
    }
  }
}

}  // namespace
}  // namespace muster::kernels

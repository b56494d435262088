// One suite for what every device computes: each operation against its formula in float64.
#include <gtest/gtest.h>

#include <cmath>

#include "tensor/device_ops.hpp"

namespace muster::tensor {
namespace {

struct Device {
  at::Device device;
  at::ScalarType type;
  bool deterministic;
};

std::vector<Device> devices() {
  std::vector<Device> found{{at::kCPU, at::kFloat, false}, {at::kCPU, at::kBFloat16, false}};
  if (at::hasCUDA())
    for (const auto type : {at::kFloat, at::kBFloat16})
      for (const bool deterministic : {false, true}) found.push_back({at::Device(at::kCUDA, 0), type, deterministic});
  return found;
}

std::string name_of(const testing::TestParamInfo<Device>& info) {
  const auto& [device, type, deterministic] = info.param;
  return std::string(device.is_cuda() ? "Gpu" : "Cpu") + c10::toString(type) + (deterministic ? "Deterministic" : "");
}

class Operations : public testing::TestWithParam<Device> {
 protected:
  Operations() {
    at::manual_seed(7);
    auto made = make_device_ops({GetParam().device, 2, spec::Attention::sdpa, GetParam().deterministic});
    EXPECT_TRUE(made) << (made ? "" : made.error().what);
    ops_ = std::move(*made);
  }

  Primitives& primitives() { return *ops_.primitives; }
  RowOps& row_ops() { return *ops_.rows; }
  at::TensorOptions options() const { return at::dtype(GetParam().type).device(GetParam().device); }
  at::Tensor random(at::IntArrayRef sizes, double scale = 1) {
    return (at::randn(sizes) * scale).to(GetParam().device, GetParam().type);
  }
  at::Tensor numbers(const std::vector<std::int64_t>& values) const {
    return at::tensor(values, at::kLong).to(GetParam().device);
  }
  static at::Tensor exact(const at::Tensor& tensor) { return tensor.to(at::kCPU, at::kDouble); }
  void expect_near(const at::Tensor& found, const at::Tensor& wanted, double factor = 1) const {
    const double tolerance = factor * (GetParam().type == at::kFloat ? 2e-5 : 2e-2);
    ASSERT_EQ(found.sizes(), wanted.sizes());
    const at::Tensor apart = (exact(found) - wanted).abs() / (1 + wanted.abs());
    EXPECT_LE(apart.max().item<double>(), tolerance);
  }

  DeviceOps ops_;
};

at::Tensor norm_formula(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return x * at::rsqrt(x.square().mean(-1, true) + epsilon) * weight;
}

// heads: [rows, heads, size]
at::Tensor turn_formula(const at::Tensor& heads, const at::Tensor& cosines, const at::Tensor& sines) {
  const auto halves = heads.chunk(2, -1);
  const at::Tensor cosine = cosines.unsqueeze(1), sine = sines.unsqueeze(1);
  return at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, -1);
}

TEST_P(Operations, RmsNormDividesByTheRootOfTheMeanSquare) {
  for (const std::int64_t width : {8, 60, 576, 3584, 9000}) {
    const at::Tensor x = random({5, width}), weight = random({width});
    expect_near(row_ops().rms_norm(x, weight, 1e-5), norm_formula(exact(x), exact(weight), 1e-5));
  }
}

TEST_P(Operations, LayerNormTakesTheMeanAwayFirst) {
  const at::Tensor x = random({3, 100}), weight = random({100}), bias = random({100});
  const at::Tensor apart = exact(x) - exact(x).mean(-1, true);
  const at::Tensor wanted = apart * at::rsqrt(apart.square().mean(-1, true) + 1e-5) * exact(weight) + exact(bias);
  expect_near(row_ops().layer_norm(x, weight, bias, 1e-5), wanted);
}

TEST_P(Operations, GatedActivationTakesHalvesOfOneMatrix) {
  for (const std::int64_t width : {12, 1536}) {
    const at::Tensor joined = random({3, 2 * width}, 3);
    const at::Tensor gate = joined.narrow(1, 0, width), up = joined.narrow(1, width, width);
    const at::Tensor x = exact(gate);
    expect_near(row_ops().activate(spec::Activation::silu, gate, up), x / (1 + at::exp(-x)) * exact(up));
  }
}

// Where a device has a kernel for both, it does what they do one after the other.
TEST_P(Operations, GatedLinearIsTheGatedActivationOfAProduct) {
  constexpr std::int64_t outputs = 2500;
  for (const std::int64_t inputs : {64, 704})
    for (const bool biased : {false, true}) {
      const at::Tensor values = random({2 * outputs, inputs}, 0.05),
                       bias = biased ? random({2 * outputs}) : at::Tensor();
      Weight weight = primitives().new_weight(2 * outputs, inputs, GetParam().type);
      primitives().fill_rows(weight, 0, values.cpu());
      for (const std::int64_t rows : {1, 5, 16, 17, 33, 64, 65}) {
        const at::Tensor input = random({rows, inputs});
        const at::Tensor found = primitives().gated_linear(spec::Activation::silu, weight, bias, input);
        const bool has_kernel = GetParam().device.is_cuda() && GetParam().type == at::kBFloat16 &&
                                !GetParam().deterministic && rows >= 5 && rows <= 32;
        ASSERT_EQ(found.defined(), has_kernel);
        if (!has_kernel) continue;
        at::Tensor both = at::matmul(exact(input), exact(values).t());
        if (biased) both = both + exact(bias);
        const auto halves = both.chunk(2, -1);
        expect_near(found, halves[0] / (1 + at::exp(-halves[0])) * halves[1]);
      }
    }
}

TEST_P(Operations, HeadsAreNormedTurnedAndPutIntoTheirSlots) {
  for (const std::int64_t size : {16, 64, 128}) {
    const AttentionShape shape{6, 2, size, 1, std::nullopt};
    const std::int64_t rows = 5, blocks = 3, block_tokens = 64;
    for (const bool normed : {false, true}) {
      const at::Tensor joined = random({rows, 10 * size});
      const at::Tensor angles = at::randn({rows, size / 2});
      HeadSplit split{
          shape, {}, {}, 1e-6, at::cos(angles).to(GetParam().device), at::sin(angles).to(GetParam().device)};
      if (normed) split.query_norm = random({size}), split.key_norm = random({size});
      const std::vector<std::int64_t> slots{130, 131, 7, 64, 0};
      const LayerCache cache{at::zeros({blocks, block_tokens, 2, size}, options()),
                             at::zeros({blocks, block_tokens, 2, size}, options())};
      const HeadRows heads = row_ops().split_heads(split, joined, numbers(slots), cache);

      const at::Tensor all = exact(joined).view({rows, 10, size});
      at::Tensor queries = all.narrow(1, 0, 6), keys = all.narrow(1, 6, 2);
      if (normed) queries = norm_formula(queries, exact(split.query_norm), 1e-6);
      if (normed) keys = norm_formula(keys, exact(split.key_norm), 1e-6);
      const at::Tensor cosines = exact(split.cosines), sines = exact(split.sines);
      expect_near(heads.queries, turn_formula(queries, cosines, sines).flatten(1), 3);
      expect_near(heads.keys, turn_formula(keys, cosines, sines).flatten(1), 3);
      expect_near(heads.values, all.narrow(1, 8, 2).flatten(1));
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t slot = slots[static_cast<std::size_t>(row)];
        EXPECT_TRUE(at::equal(cache.keys.view({-1, 2 * size})[slot], heads.keys[row]));
        EXPECT_TRUE(at::equal(cache.values.view({-1, 2 * size})[slot], heads.values[row]));
      }
    }
  }
}

TEST_P(Operations, LinearGivesEachRowItsProductsForAnyNumberOfRows) {
  for (const auto& [outputs, inputs] : {std::pair<std::int64_t, std::int64_t>{300, 64}, {17, 200}, {513, 1000}}) {
    const at::Tensor matrix = at::randn({outputs, inputs}).to(GetParam().type) / std::sqrt(static_cast<double>(inputs));
    Weight weight = primitives().new_weight(outputs, inputs, GetParam().type);
    primitives().fill_rows(weight, 0, matrix.to(GetParam().type));
    const at::Tensor bias = random({outputs});
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 70}) {
      const at::Tensor input = random({rows, inputs});
      const at::Tensor product = at::matmul(exact(input), exact(matrix.to(GetParam().type)).t());
      expect_near(primitives().linear(weight, {}, input), product, 2);
      expect_near(primitives().linear(weight, bias, input), product + exact(bias), 2);
      at::Tensor sum = random({rows, outputs});
      const at::Tensor before = exact(sum);
      at::Tensor apart = at::empty_like(sum);
      primitives().linear_add(weight, bias, input, sum, apart);
      EXPECT_TRUE(at::equal(exact(sum), before));
      primitives().linear_add(weight, bias, input, sum, sum);
      expect_near(sum, before + product + exact(bias), 2);
      EXPECT_TRUE(at::equal(apart, sum));
    }
  }
}

// Sequences of a cache whose blocks lie in no order.
struct Story {
  std::vector<AttentionPart> parts;
  AttentionTables tables;
  HeadRows heads;
  LayerCache cache;
  std::vector<at::Tensor> keys, values;  // by part: [length, kv_heads, size], float64
};

class Attention : public Operations {
 protected:
  static constexpr std::int64_t block_tokens = 64;

  Story story(const AttentionShape& shape, const std::vector<std::pair<std::int64_t, std::int64_t>>& parts) {
    Story made;
    std::int64_t rows = 0, blocks = 0;
    for (const auto& [position, count] : parts) {
      rows += count;
      blocks += (position + count + block_tokens - 1) / block_tokens;
    }
    made.heads = {random({rows, shape.heads * shape.head_size}), random({rows, shape.kv_heads * shape.head_size}),
                  random({rows, shape.kv_heads * shape.head_size})};
    made.cache = {random({blocks + 1, block_tokens, shape.kv_heads, shape.head_size}),
                  random({blocks + 1, block_tokens, shape.kv_heads, shape.head_size})};
    std::int64_t row = 0, next_block = blocks;  // from the last one on down
    for (const auto& [position, count] : parts) {
      AttentionPart part{row, count, position, {}};
      for (std::int64_t held = 0; held < position + count; held += block_tokens) part.blocks.push_back(next_block--);
      made.keys.push_back(filled(shape, part, made.heads.keys, made.cache.keys));
      made.values.push_back(filled(shape, part, made.heads.values, made.cache.values));
      made.parts.push_back(part);
      row += count;
    }
    made.tables = tables_of(made.parts);
    return made;
  }

  // Puts the part's rows into the cache, and returns all that its queries may see.
  at::Tensor filled(const AttentionShape& shape, const AttentionPart& part, const at::Tensor& rows,
                    const at::Tensor& cache) {
    const at::Tensor flat = cache.view({-1, shape.kv_heads * shape.head_size});
    std::vector<at::Tensor> seen;
    for (std::int64_t key = 0; key < part.position + part.rows; ++key) {
      const std::int64_t slot =
          part.blocks[static_cast<std::size_t>(key / block_tokens)] * block_tokens + key % block_tokens;
      if (key >= part.position) flat[slot].copy_(rows[part.first_row + key - part.position]);
      seen.push_back(exact(flat[slot]).view({shape.kv_heads, shape.head_size}));
    }
    return at::stack(seen);
  }

  AttentionTables tables_of(const std::vector<AttentionPart>& parts) {
    AttentionTables tables{parts, block_tokens, {}, {}, {}, {}};
    std::vector<std::int64_t> positions, singles, blocks;
    std::size_t most = 0;
    for (const AttentionPart& part : parts)
      if (part.rows == 1) most = std::max(most, part.blocks.size());
    for (const AttentionPart& part : parts) {
      for (std::int64_t i = 0; i < part.rows; ++i) positions.push_back(part.position + i);
      if (part.rows > 1) continue;
      singles.push_back(part.first_row);
      blocks.insert(blocks.end(), part.blocks.begin(), part.blocks.end());
      blocks.resize(singles.size() * most);
    }
    tables.positions = numbers(positions);
    tables.single_rows = numbers(singles);
    tables.single_blocks =
        numbers(blocks).view({static_cast<std::int64_t>(singles.size()), static_cast<std::int64_t>(most)});
    return tables;
  }

  static at::Tensor formula(const AttentionShape& shape, const Story& story) {
    const at::Tensor queries = exact(story.heads.queries).view({-1, shape.heads, shape.head_size});
    at::Tensor output = at::empty_like(queries);
    for (std::size_t p = 0; p < story.parts.size(); ++p) {
      const AttentionPart& part = story.parts[p];
      for (std::int64_t i = 0; i < part.rows; ++i) {
        const std::int64_t last = part.position + i;
        const std::int64_t first = shape.window ? std::max<std::int64_t>(0, last - *shape.window + 1) : 0;
        for (std::int64_t head = 0; head < shape.heads; ++head) {
          const std::int64_t own = head / (shape.heads / shape.kv_heads);
          const at::Tensor keys = story.keys[p].slice(0, first, last + 1).select(1, own);
          const at::Tensor values = story.values[p].slice(0, first, last + 1).select(1, own);
          const at::Tensor weights = at::softmax(at::mv(keys, queries[part.first_row + i][head]) * shape.scale, 0);
          output[part.first_row + i][head].copy_(at::mv(values.t(), weights));
        }
      }
    }
    return output.flatten(1);
  }

  void expect_formula(const AttentionShape& shape, const std::vector<std::pair<std::int64_t, std::int64_t>>& parts) {
    const Story told = story(shape, parts);
    expect_near(primitives().attention(shape, told.tables, told.heads, told.cache, nullptr), formula(shape, told));
  }
};

TEST_P(Attention, OfSingleRowsSeesAllEarlierKeysOfItsSequence) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> rows{{0, 1}, {5, 1}, {63, 1}, {64, 1}, {130, 1}, {300, 1}};
  for (const auto& [heads, kv_heads, size] :
       {std::array<std::int64_t, 3>{2, 2, 16}, {9, 3, 64}, {7, 1, 128}, {24, 2, 80}, {4, 2, 256}})
    for (const std::optional<std::int64_t> window : {std::optional<std::int64_t>(), std::optional<std::int64_t>(70)})
      expect_formula({heads, kv_heads, size, 1 / std::sqrt(static_cast<double>(size)), window}, rows);
}

TEST_P(Attention, OfPromptsChunksAndSingleRowsBesideEachOther) {
  for (const std::optional<std::int64_t> window : {std::optional<std::int64_t>(), std::optional<std::int64_t>(20)})
    expect_formula({6, 2, 64, 0.125, window}, {{0, 37}, {64, 10}, {100, 1}, {0, 1}, {0, 70}, {33, 2}});
}

INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Operations, testing::ValuesIn(devices()), name_of);
INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Attention, testing::ValuesIn(devices()), name_of);

}  // namespace
}  // namespace muster::tensor

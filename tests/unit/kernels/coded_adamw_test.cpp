#include <gtest/gtest.h>

#include <limits>

#include "kernels/coded/dynamic_map.hpp"
#include "kernels/optimizer.hpp"
#include "numbers.hpp"

namespace muster::kernels {
namespace {

constexpr std::int64_t block = 256;

std::int64_t blocks_of(std::int64_t count) { return (count + block - 1) / block; }

// A parameter with its moments.
struct Stepped {
  explicit Stepped(Numbers start)
      : parameter(std::move(start)),
        codes(2, std::vector<std::uint8_t>(static_cast<std::size_t>(parameter.count()))),
        scales(2, std::vector<float>(static_cast<std::size_t>(blocks_of(parameter.count())))) {}

  CodedMoment moment(std::size_t number, std::int64_t first = 0) {
    return {codes[number].data() + first, scales[number].data() + first / block};
  }
  float number(std::size_t moment, std::int64_t element) const {
    const DynamicMap& map = moment == 0 ? signed_map() : unsigned_map();
    const auto place = static_cast<std::size_t>(element);
    return map.values[codes[moment][place]] * scales[moment][place / static_cast<std::size_t>(block)];
  }
  bool operator==(const Stepped&) const = default;

  Numbers parameter;
  std::vector<std::vector<std::uint8_t>> codes;
  std::vector<std::vector<float>> scales;
};

enum class Gradients { plain, exact, narrow };  // narrow: and the parameter in bfloat16

// Numbers of many decades, some of them zero.
Numbers gradients_of(Scalar scalar, std::int64_t count, unsigned seed) {
  Numbers drawn = Numbers::drawn(scalar, count, seed, 0.1F);
  for (std::int64_t i = 0; i < count; ++i)
    drawn.set(i, i % 11 == 0 ? 0.0F : static_cast<float>(drawn[i]) * std::pow(10.0F, static_cast<float>(-(i % 5))));
  return drawn;
}

Stepped run(ThreadTeam& team, std::int64_t count, Gradients kind) {
  const Scalar scalar = kind == Gradients::narrow ? Scalar::bfloat16 : Scalar::float32;
  Stepped stepped(Numbers::drawn(scalar, count, 1));
  for (std::int64_t step = 1; step <= 5; ++step) {
    Numbers gradient = gradients_of(scalar, count, static_cast<unsigned>(step));
    std::vector<std::int64_t> multiples;
    for (std::int64_t i = 0; i < count; ++i) multiples.push_back(exact_term(static_cast<float>(gradient[i])));
    std::int64_t overflow = 0;
    const Sum sum =
        kind == Gradients::exact ? Sum{.multiples = multiples.data(), .overflow = &overflow} : gradient.sum();
    adamw(team, {.rate = 1e-2, .decay = 0.1, .step = step, .gradient_scale = 0.3}, sum, count, scalar,
          stepped.parameter.data(), stepped.moment(0), stepped.moment(1));
  }
  return stepped;
}

TEST(CodedAdamW, StepsHaveTheSameBitsOnAnyThreadsAndVectorSet) {
  for (const Gradients kind : {Gradients::plain, Gradients::exact, Gradients::narrow})
    for (const std::int64_t count : {1, 15, 256, 1000, 20'003}) {
      ThreadTeam portable(1, VectorSet::portable);
      const Stepped expected = run(portable, count, kind);
      for (const VectorSet set : available_sets())
        for (const int threads : {1, 3}) {
          ThreadTeam team(threads, set);
          EXPECT_TRUE(run(team, count, kind) == expected) << name(set) << ", " << count;
        }
    }
}

TEST(CodedAdamW, TheFirstStepOfAParameterIsThatOfPlainMoments) {
  ThreadTeam team(2);
  constexpr std::int64_t count = 3001;
  Numbers gradient = gradients_of(Scalar::float32, count, 3), plain = Numbers::drawn(Scalar::float32, count, 1);
  Numbers first(Scalar::float32, count), second = first;
  Stepped coded(plain);
  const AdamWRule rule{.rate = 1e-2, .decay = 0.1, .gradient_scale = 0.3};
  adamw(team, rule, gradient.sum(), count, Scalar::float32, plain.data(), first.data(), second.data());
  adamw(team, rule, gradient.sum(), count, Scalar::float32, coded.parameter.data(), coded.moment(0), coded.moment(1));
  EXPECT_TRUE(coded.parameter == plain);
  // Each moment is the nearest of what its block can say: no two neighbours of a map are farther apart than 1 / 64.
  for (std::int64_t i = 0; i < count; ++i) {
    const auto scale = [&](std::size_t moment) { return coded.scales[moment][static_cast<std::size_t>(i / block)]; };
    EXPECT_NEAR(coded.number(0, i), first[i], scale(0) / 128) << i;
    EXPECT_NEAR(coded.number(1, i), second[i], scale(1) / 128) << i;
  }
}

TEST(CodedAdamW, TheLargestOfABlockAndZeroAreKeptAsTheyAre) {
  ThreadTeam team(1);
  constexpr std::int64_t count = 2 * block;
  Stepped stepped(Numbers(Scalar::float32, count));
  Numbers gradient(Scalar::float32, count);
  gradient.set(3, 0.7F);  // the second block has none
  adamw(team, {.rate = 1e-2}, gradient.sum(), count, Scalar::float32, stepped.parameter.data(), stepped.moment(0),
        stepped.moment(1));
  for (std::int64_t i = 0; i < count; ++i) {
    EXPECT_EQ(stepped.number(0, i) == 0, i != 3) << i;
    EXPECT_EQ(stepped.number(1, i) == 0, i != 3) << i;
  }
  EXPECT_FLOAT_EQ(stepped.number(0, 3), 0.07F);
  EXPECT_EQ(stepped.number(0, 3), stepped.scales[0][0]);
  EXPECT_EQ(stepped.scales[0][1], 0);
}

TEST(CodedAdamW, AParameterThatIsCutBetweenBlocksHasTheSameBits) {
  ThreadTeam team(2);
  constexpr std::int64_t count = 1500;
  Stepped whole(Numbers::drawn(Scalar::float32, count, 1)), cut = whole;
  for (std::int64_t step = 1; step <= 3; ++step) {
    Numbers gradient = gradients_of(Scalar::float32, count, static_cast<unsigned>(step));
    const AdamWRule rule{.rate = 1e-2, .step = step};
    adamw(team, rule, gradient.sum(), count, Scalar::float32, whole.parameter.data(), whole.moment(0),
          whole.moment(1));
    for (const auto& [first, end] : {std::pair{0L, 512L}, {512L, 768L}, {768L, count}})
      adamw(team, rule, {.values = gradient.floats() + first}, end - first, Scalar::float32, cut.parameter.at(first),
            cut.moment(0, first), cut.moment(1, first));
  }
  EXPECT_TRUE(whole == cut);
}

int nearest(const DynamicMap& map, float number) {
  int best = 0;
  for (int i = 1; i < 256; ++i)
    if (std::abs(static_cast<double>(map.values[i]) - number) <
        std::abs(static_cast<double>(map.values[best]) - number))
      best = i;
  return best;
}

TEST(DynamicMap, ACodeIsTheNearestAndATieTheLower) {
  std::mt19937 chance(1);
  std::uniform_real_distribution<float> decades(-9.0F, 0.0F);
  for (const DynamicMap* map : {&signed_map(), &unsigned_map()}) {
    const float least = map == &signed_map() ? -1.0F : 0.0F;
    std::vector<float> numbers{-0.0F, 0.0F, 1.0F, least, std::numeric_limits<float>::denorm_min()};
    for (int i = 0; i < 255; ++i)
      for (const float towards : {-2.0F, map->middles[i], 2.0F}) {
        numbers.push_back(std::nextafter(map->middles[i], towards));
        numbers.push_back(std::nextafter(numbers.back(), towards));
      }
    for (int i = 0; i < 20'000; ++i) {
      numbers.push_back(std::pow(10.0F, decades(chance)));
      if (least < 0) numbers.push_back(-numbers.back());
    }
    for (const float number : numbers) ASSERT_EQ(map->code_of(number), nearest(*map, number)) << number;
  }
}

TEST(DynamicMap, IsAscendingWithZeroAndOne) {
  for (const DynamicMap* map : {&signed_map(), &unsigned_map()})
    for (int i = 1; i < 256; ++i) EXPECT_LT(map->values[i - 1], map->values[i]) << i;
  EXPECT_EQ(signed_map().values[127], 0);
  EXPECT_EQ(unsigned_map().values[0], 0);
  EXPECT_EQ(signed_map().values[255], 1);
  EXPECT_EQ(unsigned_map().values[255], 1);
}

}  // namespace
}  // namespace muster::kernels

#include "generate/step_codec.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace muster::generate {
namespace {

template <class Element>
std::vector<Element> some_numbers(std::mt19937_64& random) {
  std::vector<Element> numbers(random() % 5);
  for (Element& number : numbers) number = static_cast<Element>(random());
  return numbers;
}

Step some_step(std::mt19937_64& random) {
  Step step;
  for (std::uint64_t i = random() % 4; i > 0; --i)
    step.moves.push_back({static_cast<model::BlockMove::Kind>(random() % 3), static_cast<std::int64_t>(random() % 99),
                          static_cast<std::int64_t>(random() % 99)});
  step.batch.tokens = some_numbers<std::int64_t>(random);
  for (std::uint64_t i = random() % 4; i > 0; --i)
    step.batch.parts.push_back({static_cast<std::int64_t>(random() % 99), static_cast<std::int64_t>(random() % 99),
                                static_cast<std::int64_t>(random() % 99), some_numbers<std::int64_t>(random)});
  for (std::uint64_t i = random() % 4; i > 0; --i) {
    Draw draw{static_cast<std::int64_t>(random() % 99), std::generate_canonical<double, 53>(random)};
    if (random() % 2 == 0) draw.given = static_cast<std::int32_t>(random());
    draw.seen = some_numbers<std::int32_t>(random);
    step.draws.push_back(std::move(draw));
  }
  return step;
}

TEST(StepCodec, GivesBackEveryStepAsItWas) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 500; ++i) {
    const Step step = some_step(random);
    EXPECT_EQ(decode_step(encode_step(step)), step);
  }
}

TEST(StepCodec, RefusesAStepThatIsCutOffOrHasMoreBehindIt) {
  std::mt19937_64 random(11);
  std::vector<std::int64_t> numbers = encode_step(some_step(random));
  for (std::size_t length = 0; length < numbers.size(); ++length)
    EXPECT_THROW(decode_step(std::span(numbers).first(length)), std::invalid_argument);
  numbers.push_back(0);
  EXPECT_THROW(decode_step(numbers), std::invalid_argument);
}

TEST(StepCodec, GivesBackTokensToTheLastBitOfTheirLogProbability) {
  const std::vector<tensor::ChosenToken> tokens{
      {0, 0.0F}, {151935, -0.0F}, {7, -12.3456789F}, {8, -std::numeric_limits<float>::infinity()}};
  const auto back = decode_tokens(encode_tokens(tokens));
  EXPECT_EQ(back, tokens);
  EXPECT_TRUE(std::signbit(back[1].log_probability));
}

}  // namespace
}  // namespace muster::generate

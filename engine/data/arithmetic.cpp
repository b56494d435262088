#include "data/arithmetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_set>

#include "base/bit_mix.hpp"
#include "base/checksum.hpp"
#include "data/epoch_order.hpp"

namespace muster::data {
namespace {

constexpr std::uint64_t most_questions = 1'000'000;
constexpr std::int64_t most_digits = 9;  // products, and the number of questions, fit into 64 bits
Error wrong(std::string what, std::string remedy) {
  return {Error::Kind::bad_input, "builtin:arithmetic: " + std::move(what), std::move(remedy)};
}

Result<void> check(const ArithmeticSettings& settings) {
  for (std::size_t i = 0; i < settings.operations.size(); ++i) {
    const char operation = settings.operations[i];
    if (std::string_view("+-*").find(operation) == std::string_view::npos)
      return wrong(fmt::format("'{}' is not a known operation", operation), "operations: +, - and *");
    if (settings.operations.find(operation, i + 1) != std::string::npos)
      return wrong(fmt::format("'{}' is given twice", operation), "name each operation once");
  }
  if (settings.operations.empty()) return wrong("no operation is given", "operations: +, - and *");
  if (settings.digits < 1 || settings.digits > most_digits)
    return wrong(fmt::format("digits is {}", settings.digits), fmt::format("digits: from 1 to {}", most_digits));
  if (!(settings.held_out >= 0 && settings.held_out < 1))
    return wrong(fmt::format("held_out is {}", settings.held_out), "held_out: a share, from 0 up to below 1");
  return {};
}

Question question(std::int64_t left, char operation, std::int64_t right) {
  const std::int64_t answer = operation == '+' ? left + right : operation == '-' ? left - right : left * right;
  return {fmt::format("{}{}{}=", left, operation, right), fmt::format("{}", answer)};
}

bool is_held_out(const std::string& prompt, double share) {
  const std::uint64_t bits = checksum(std::as_bytes(std::span(prompt)));
  return static_cast<double>(bits >> 11) * 0x1p-53 < share;
}

// Numbers from 0 up to count-1: all of them in random order, or, where there are too many, some.
std::vector<std::uint64_t> drawn_numbers(std::uint64_t count, std::uint64_t seed) {
  std::vector<std::uint64_t> numbers;
  if (count <= most_questions) {
    const auto order = shuffled_numbers(static_cast<std::uint32_t>(count), seed, 0);
    numbers.assign(order.begin(), order.end());
    return numbers;
  }
  std::unordered_set<std::uint64_t> seen;
  for (std::uint64_t i = 0; numbers.size() < most_questions; ++i) {
    const std::uint64_t bits = mix_bits(mix_bits(seed + golden_step) + i * golden_step);
    const std::uint64_t number = bounded(bits, count);
    if (seen.insert(number).second) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

std::string wrong_answer(const Question& question) {
  std::string wrong = question.answer;
  const std::uint64_t bits = mix_bits(checksum(std::as_bytes(std::span(question.prompt))) + golden_step);
  const std::size_t first = wrong.starts_with('-') ? 1 : 0, digits = wrong.size() - first;
  const std::size_t changed = first + bits % digits;
  const auto others = static_cast<std::uint64_t>(digits > 1 && changed == first ? 9 : 10);  // no number begins with 0
  const std::uint64_t lowest = 10 - others, digit = static_cast<std::uint64_t>(wrong[changed] - '0') - lowest;
  wrong[changed] = static_cast<char>('0' + lowest + (digit + 1 + (bits >> 8) % (others - 1)) % others);
  return wrong;
}

Result<Questions> arithmetic_questions(const ArithmeticSettings& settings) {
  if (auto checked = check(settings); !checked) return checked.error();
  std::uint64_t numbers = 1;
  for (std::int64_t i = 0; i < settings.digits; ++i) numbers *= 10;
  const std::uint64_t count = numbers * numbers * settings.operations.size();
  Questions questions;
  for (const std::uint64_t number : drawn_numbers(count, settings.seed)) {
    const std::uint64_t pair = number / settings.operations.size();
    Question made =
        question(static_cast<std::int64_t>(pair / numbers), settings.operations[number % settings.operations.size()],
                 static_cast<std::int64_t>(pair % numbers));
    auto& list = is_held_out(made.prompt, settings.held_out) ? questions.held_out : questions.training;
    list.push_back(std::move(made));
  }
  return questions;
}

}  // namespace muster::data

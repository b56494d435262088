#include "generate/step_codec.hpp"

#include <bit>
#include <stdexcept>
#include <utility>

namespace muster::generate {
namespace {

using model::BlockMove;
using model::SequencePart;

// Members are taken apart by structured bindings: one that is added and not sent does not compile.
class Writer {
 public:
  void put(std::int64_t number) { numbers_.push_back(number); }
  template <class Element>
  void put_all(const std::vector<Element>& elements) {
    put(static_cast<std::int64_t>(elements.size()));
    for (const Element& element : elements) put(element);
  }
  void put(const BlockMove& move) {
    const auto& [kind, from, to] = move;
    for (const std::int64_t number : {static_cast<std::int64_t>(kind), from, to}) put(number);
  }
  void put(const SequencePart& part) {
    const auto& [rows, position, rope_length, blocks, adapter] = part;
    for (const std::int64_t number : {rows, position, rope_length, adapter}) put(number);
    put_all(blocks);
  }
  void put(const Draw& draw) {
    const auto& [row, uniform, given, seen] = draw;
    put(row);
    put(std::bit_cast<std::int64_t>(uniform));
    put(given ? 1 : 0);
    put(given.value_or(0));
    put_all(seen);
  }
  void put(const Step& step) {
    const auto& [moves, batch, draws] = step;
    const auto& [tokens, parts] = batch;
    put_all(moves);
    put_all(tokens);
    put_all(parts);
    put_all(draws);
  }
  std::vector<std::int64_t> numbers() && { return std::move(numbers_); }

 private:
  std::vector<std::int64_t> numbers_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::int64_t> numbers) : left_(numbers) {}

  std::int64_t take() {
    if (left_.empty()) throw std::invalid_argument("a step that ends too early");
    const std::int64_t number = left_.front();
    left_ = left_.subspan(1);
    return number;
  }
  template <class Element, class Take>
  std::vector<Element> take_all(Take take_one) {
    const std::int64_t count = take();
    if (count < 0 || std::cmp_greater(count, left_.size())) throw std::invalid_argument("a step with a wrong count");
    std::vector<Element> elements;
    elements.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) elements.push_back(take_one());
    return elements;
  }
  std::vector<std::int64_t> take_numbers() {
    return take_all<std::int64_t>([this] { return take(); });
  }
  std::int32_t take_token() { return static_cast<std::int32_t>(take()); }
  BlockMove take_move() {
    BlockMove move;
    move.kind = static_cast<BlockMove::Kind>(take());
    move.from = take();
    move.to = take();
    return move;
  }
  SequencePart take_part() {
    SequencePart part;
    part.rows = take();
    part.position = take();
    part.rope_length = take();
    part.adapter = take();
    part.blocks = take_numbers();
    return part;
  }
  Draw take_draw() {
    Draw draw;
    draw.row = take();
    draw.uniform = std::bit_cast<double>(take());
    const bool is_given = take() != 0;
    if (const std::int32_t token = take_token(); is_given) draw.given = token;
    draw.seen = take_all<std::int32_t>([this] { return take_token(); });
    return draw;
  }
  bool done() const { return left_.empty(); }

 private:
  std::span<const std::int64_t> left_;
};

}  // namespace

std::vector<std::int64_t> encode_step(const Step& step) {
  Writer writer;
  writer.put(step);
  return std::move(writer).numbers();
}

Step decode_step(std::span<const std::int64_t> numbers) {
  Reader reader(numbers);
  Step step;
  step.moves = reader.take_all<BlockMove>([&] { return reader.take_move(); });
  step.batch.tokens = reader.take_numbers();
  step.batch.parts = reader.take_all<SequencePart>([&] { return reader.take_part(); });
  step.draws = reader.take_all<Draw>([&] { return reader.take_draw(); });
  if (!reader.done()) throw std::invalid_argument("a step with more behind it");
  return step;
}

std::vector<std::int64_t> encode_tokens(std::span<const tensor::ChosenToken> tokens) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(2 * tokens.size());
  for (const auto& [token, log_probability] : tokens) {
    numbers.push_back(token);
    numbers.push_back(std::bit_cast<std::int32_t>(log_probability));
  }
  return numbers;
}

std::vector<tensor::ChosenToken> decode_tokens(std::span<const std::int64_t> numbers) {
  if (numbers.size() % 2 != 0) throw std::invalid_argument("tokens are two numbers each");
  std::vector<tensor::ChosenToken> tokens;
  for (std::size_t i = 0; i < numbers.size(); i += 2)
    tokens.push_back(
        {static_cast<std::int32_t>(numbers[i]), std::bit_cast<float>(static_cast<std::int32_t>(numbers[i + 1]))});
  return tokens;
}

}  // namespace muster::generate

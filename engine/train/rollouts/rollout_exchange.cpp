#include "train/rollouts/rollout_exchange.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <span>
#include <string>

#include "tensor/torch.hpp"

namespace muster::train {
namespace {

using Numbers = std::vector<std::int64_t>;

void pack(Numbers& to, const std::optional<double>& number) {
  to.push_back(number ? 1 : 0);
  to.push_back(std::bit_cast<std::int64_t>(number.value_or(0)));
}

Numbers packed(const std::vector<Rollout>& rollouts) {
  Numbers numbers;
  for (const Rollout& rollout : rollouts) {
    numbers.insert(numbers.end(), {rollout.prompt, rollout.sample, rollout.ended ? 1 : 0, std::ssize(rollout.tokens),
                                   std::ssize(rollout.inserted), std::ssize(rollout.parts),
                                   std::ssize(rollout.turn_rewards), std::ssize(rollout.log_probabilities),
                                   std::ssize(rollout.reference), std::ssize(rollout.values)});
    for (const InsertedTokens& span : rollout.inserted) numbers.insert(numbers.end(), {span.begin, span.end});
    pack(numbers, rollout.reward);
    for (const auto* values : {&rollout.parts, &rollout.turn_rewards})
      for (const auto& value : *values) pack(numbers, value);
    numbers.insert(numbers.end(), rollout.tokens.begin(), rollout.tokens.end());
    for (const auto* of_tokens : {&rollout.log_probabilities, &rollout.reference, &rollout.values})
      for (const float number : *of_tokens) numbers.push_back(std::bit_cast<std::int32_t>(number));
  }
  return numbers;
}

class Unpacking {
 public:
  explicit Unpacking(std::span<const std::int64_t> numbers) : left_(numbers) {}

  std::vector<Rollout> rollouts() {
    std::vector<Rollout> found;
    while (!left_.empty()) {
      Rollout& rollout = found.emplace_back();
      rollout.prompt = next();
      rollout.sample = next();
      rollout.ended = next() != 0;
      const std::int64_t tokens = next(), inserted = next(), parts = next(), turns = next(), drawn = next(),
                         reference = next(), values = next();
      for (std::int64_t i = 0; i < inserted; ++i) {
        const std::int64_t begin = next();
        rollout.inserted.push_back({begin, next()});
      }
      rollout.reward = optional_number();
      for (std::int64_t i = 0; i < parts; ++i) rollout.parts.push_back(optional_number());
      for (std::int64_t i = 0; i < turns; ++i) rollout.turn_rewards.push_back(optional_number());
      for (std::int64_t i = 0; i < tokens; ++i) rollout.tokens.push_back(static_cast<std::int32_t>(next()));
      for (std::int64_t i = 0; i < drawn; ++i) rollout.log_probabilities.push_back(number_of_token());
      for (std::int64_t i = 0; i < reference; ++i) rollout.reference.push_back(number_of_token());
      for (std::int64_t i = 0; i < values; ++i) rollout.values.push_back(number_of_token());
    }
    return found;
  }

 private:
  std::int64_t next() {
    const std::int64_t number = left_.front();
    left_ = left_.subspan(1);
    return number;
  }
  float number_of_token() { return std::bit_cast<float>(static_cast<std::int32_t>(next())); }
  std::optional<double> optional_number() {
    const bool is_there = next() != 0;
    const auto number = std::bit_cast<double>(next());
    return is_there ? std::optional(number) : std::nullopt;
  }

  std::span<const std::int64_t> left_;
};

at::Tensor as_tensor(const Numbers& numbers, std::int64_t size, at::Device device) {
  at::Tensor tensor = at::zeros({size}, at::kLong);
  std::ranges::copy(numbers, tensor.mutable_data_ptr<std::int64_t>());
  return tensor.to(device);
}

Numbers as_numbers(const at::Tensor& tensor) {
  const at::Tensor host = tensor.cpu();
  const auto* first = host.const_data_ptr<std::int64_t>();
  return {first, first + host.numel()};
}

Numbers broadcast(const Numbers& own, int root, communicate::Communicator& ranks, at::Device device) {
  at::Tensor size = at::full({1}, std::ssize(own), at::TensorOptions().dtype(at::kLong).device(device));
  ranks.broadcast(size, root);
  const auto count = size.item<std::int64_t>();
  if (count == 0) return {};
  at::Tensor numbers = as_tensor(ranks.rank() == root ? own : Numbers(), count, device);
  ranks.broadcast(numbers, root);
  Numbers found = as_numbers(numbers);
  ranks.check();
  return found;
}

Numbers of_text(const std::string& text) {
  Numbers numbers;
  for (const char byte : text) numbers.push_back(static_cast<unsigned char>(byte));
  return numbers;
}

std::string to_text(const Numbers& numbers) {
  std::string text;
  for (const std::int64_t byte : numbers) text.push_back(static_cast<char>(byte));
  return text;
}

}  // namespace

std::vector<Rollout> gather_rollouts(const std::vector<Rollout>& own, communicate::Communicator& ranks,
                                     at::Device device) {
  const Numbers numbers = packed(own);
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  at::Tensor sizes = at::empty({ranks.size()}, options);
  ranks.all_gather(at::full({1}, std::ssize(numbers), options), sizes);
  const Numbers counts = as_numbers(sizes);
  ranks.check();
  const std::int64_t most = std::max<std::int64_t>(std::ranges::max(counts), 1);
  at::Tensor all = at::empty({ranks.size() * most}, options);
  ranks.all_gather(as_tensor(numbers, most, device), all);
  const Numbers gathered = as_numbers(all);
  ranks.check();
  std::vector<Rollout> found;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const std::span of_rank = std::span(gathered).subspan(rank * static_cast<std::size_t>(most),
                                                          static_cast<std::size_t>(counts[rank]));
    for (Rollout& rollout : Unpacking(of_rank).rollouts()) found.push_back(std::move(rollout));
  }
  return found;
}

void share_rewards(std::vector<Rollout>& answers, const std::vector<std::size_t>& own, communicate::Communicator& ranks,
                   at::Device device) {
  const auto name_of = [](const Rollout& answer) { return std::pair(answer.prompt, answer.sample); };
  std::vector<Rollout> rewards;
  for (const std::size_t place : own)
    rewards.push_back({.prompt = answers[place].prompt,
                       .sample = answers[place].sample,
                       .reward = answers[place].reward,
                       .parts = answers[place].parts});
  std::map<std::pair<std::int64_t, std::int64_t>, Rollout> found;
  for (Rollout& judged : gather_rollouts(rewards, ranks, device)) found.emplace(name_of(judged), std::move(judged));
  for (Rollout& answer : answers) {
    Rollout& judged = found.at(name_of(answer));
    answer.reward = judged.reward;
    answer.parts = std::move(judged.parts);
  }
}

std::vector<Rollout> rollouts_of_first_rank(const std::vector<Rollout>& own, communicate::Communicator& ranks,
                                            at::Device device) {
  return Unpacking(broadcast(ranks.rank() == 0 ? packed(own) : Numbers(), 0, ranks, device)).rollouts();
}

bool is_true_anywhere(bool own, communicate::Communicator& ranks, at::Device device) {
  const at::Tensor found = at::full({1}, own ? 1 : 0, at::TensorOptions().dtype(at::kLong).device(device));
  ranks.all_reduce(found, communicate::Reduction::maximum);
  const auto any = found.item<std::int64_t>();
  ranks.check();
  return any != 0;
}

Result<void> agree_on_failure(const Result<void>& own, communicate::Communicator& ranks, at::Device device) {
  // The lowest rank is the largest of these numbers; 0: none.
  const std::int64_t mine = own ? 0 : ranks.size() - ranks.rank();
  const at::Tensor first = at::full({1}, mine, at::TensorOptions().dtype(at::kLong).device(device));
  ranks.all_reduce(first, communicate::Reduction::maximum);
  const auto found = first.item<std::int64_t>();
  ranks.check();
  if (found == 0) return {};
  const int root = ranks.size() - static_cast<int>(found);
  const Error error = own ? Error{} : own.error();
  const Numbers kind = broadcast({static_cast<std::int64_t>(error.kind)}, root, ranks, device);
  const std::string what = to_text(broadcast(of_text(error.what), root, ranks, device));
  const std::string remedy = to_text(broadcast(of_text(error.remedy), root, ranks, device));
  return Error{static_cast<Error::Kind>(kind.front()), what, remedy};
}

}  // namespace muster::train

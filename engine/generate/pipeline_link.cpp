#include "generate/pipeline_link.hpp"

#include <ATen/ATen.h>

#include <utility>

#include "generate/step_codec.hpp"

namespace muster::generate {
namespace {

// What a message begins with: how many numbers follow, or one of these.
constexpr std::int64_t no_more_steps = -1;
constexpr std::int64_t still_here = -2;

at::Tensor to_tensor(const std::vector<std::int64_t>& numbers) { return at::tensor(numbers, at::kLong); }

}  // namespace

PipelineLink::PipelineLink(PipelineRanks ranks, std::chrono::milliseconds silence)
    : ranks_(ranks),
      // The first stage listens only while a step is under way: no sign of life is needed there.
      outbox_(ranks.messages, (stage() + 1) % stages(), is_last() ? at::Tensor() : to_tensor({still_here}), silence) {}

void PipelineLink::post_numbers(const std::vector<std::int64_t>& numbers) {
  outbox_.post(to_tensor({static_cast<std::int64_t>(numbers.size())}));
  outbox_.post(to_tensor(numbers));
}

void PipelineLink::pass_on(const Step& step, const at::Tensor& hidden) {
  if (ranks_.rows != nullptr) {
    post_numbers(encode_step(step));
    ranks_.rows->send(hidden.contiguous(), stage() + 1);
    return;
  }
  const at::Tensor rows = hidden.to(at::kCPU).contiguous();  // first: nothing may come between a step and its rows
  post_numbers(encode_step(step));
  outbox_.post(rows);
}

// One number more than the tokens need, so that a step without draws has an answer, too.
void PipelineLink::answer(std::vector<tensor::ChosenToken> tokens) {
  std::vector<std::int64_t> numbers = encode_tokens(tokens);
  numbers.push_back(0);
  post_numbers(numbers);
}

void PipelineLink::end() {
  if (!is_last()) outbox_.post(to_tensor({no_more_steps}));
  outbox_.drain();
  ranks_.messages.barrier();  // nobody leaves while another still reads
}

// A send that failed has ended this wait: that is the reason then.
void PipelineLink::receive(const at::Tensor& tensor, int from) try {
  ranks_.messages.receive(tensor, from);
} catch (const communicate::CommunicationError&) {
  outbox_.throw_failure();
  throw;
}

std::vector<std::int64_t> PipelineLink::receive_numbers(std::int64_t count, int from) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  receive(at::from_blob(numbers.data(), {count}, at::kLong), from);
  return numbers;
}

std::optional<Step> PipelineLink::next_step() {
  while (true) {
    const std::int64_t count = receive_numbers(1, stage() - 1).front();
    if (count == no_more_steps) return std::nullopt;
    if (count != still_here) return decode_step(receive_numbers(count, stage() - 1));
  }
}

at::Tensor PipelineLink::rows_into(at::Tensor empty) {
  if (ranks_.rows != nullptr) {
    ranks_.rows->receive(empty, stage() - 1);
    return empty;
  }
  const at::Tensor host = empty.is_cpu() ? empty : at::empty(empty.sizes(), empty.options().device(at::kCPU));
  receive(host, stage() - 1);
  return host.to(empty.device());
}

std::vector<tensor::ChosenToken> PipelineLink::next_answer() {
  const std::int64_t count = receive_numbers(1, stages() - 1).front();
  std::vector<std::int64_t> numbers = receive_numbers(count, stages() - 1);
  numbers.pop_back();
  return decode_tokens(numbers);
}

}  // namespace muster::generate

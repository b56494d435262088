#include "communicate/communicator.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <csignal>

#include <algorithm>
#include <array>
#include <numeric>

#include "communicate/implementations.hpp"

namespace muster::communicate {
namespace {

constexpr std::array types{at::kFloat, at::kBFloat16, at::kHalf, at::kLong};

[[noreturn]] void refuse(const char* operation, const std::string& why) {
  throw std::invalid_argument(fmt::format("{}: {}", operation, why));
}

void check_tensor(const char* operation, const at::Tensor& tensor) {
  if (!tensor.defined()) refuse(operation, "a tensor that is none");
  if (std::ranges::find(types, tensor.scalar_type()) == types.end())
    refuse(operation,
           fmt::format("{} is not among float32, bfloat16, float16 and int64", c10::toString(tensor.scalar_type())));
  if (!tensor.is_contiguous()) refuse(operation, "the tensor is not contiguous");
}

void check_pair(const char* operation, const at::Tensor& input, const at::Tensor& output) {
  check_tensor(operation, input);
  check_tensor(operation, output);
  if (input.scalar_type() != output.scalar_type() || input.device() != output.device())
    refuse(operation, fmt::format("input is {} on {}, output {} on {}", c10::toString(input.scalar_type()),
                                  input.device().str(), c10::toString(output.scalar_type()), output.device().str()));
}

void check_times(const char* operation, const char* many_name, std::int64_t many, const char* one_name,
                 std::int64_t one, int size) {
  if (many != one * size)
    refuse(operation, fmt::format("{} has {} elements, and must have {}: {} times the {} of {}", many_name, many,
                                  one * size, size, one, one_name));
}

std::vector<std::int64_t> checked_counts(const char* name, std::span<const std::int64_t> counts, int size,
                                         std::int64_t elements) {
  if (counts.size() != static_cast<std::size_t>(size) ||
      std::ranges::any_of(counts, [](auto count) { return count < 0; }))
    refuse("all_to_all", fmt::format("{} must be {} numbers from 0 on", name, size));
  const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (total != elements)
    refuse("all_to_all", fmt::format("{} add up to {}, and the tensor has {} elements", name, total, elements));
  return {counts.begin(), counts.end()};
}

}  // namespace

void Communicator::check_peer(const char* operation, int peer) const {
  if (peer < 0 || peer >= size_) refuse(operation, fmt::format("there is no rank {} among {}", peer, size_));
}

void Communicator::broadcast(const at::Tensor& tensor, int root) {
  check_tensor("broadcast", tensor);
  check_peer("broadcast", root);
  if (tensor.numel() > 0) run_broadcast(tensor, root);
}

void Communicator::all_reduce(const at::Tensor& tensor, Reduction reduction) {
  check_tensor("all_reduce", tensor);
  if (tensor.numel() > 0) run_all_reduce(tensor, reduction);
}

void Communicator::all_gather(const at::Tensor& input, const at::Tensor& output) {
  check_pair("all_gather", input, output);
  check_times("all_gather", "output", output.numel(), "input", input.numel(), size_);
  if (input.numel() > 0) run_all_gather(input, output);
}

void Communicator::reduce_scatter(const at::Tensor& input, const at::Tensor& output, Reduction reduction) {
  check_pair("reduce_scatter", input, output);
  check_times("reduce_scatter", "input", input.numel(), "output", output.numel(), size_);
  if (output.numel() > 0) run_reduce_scatter(input, output, reduction);
}

void Communicator::all_to_all(const at::Tensor& input, std::span<const std::int64_t> input_counts,
                              const at::Tensor& output, std::span<const std::int64_t> output_counts) {
  check_pair("all_to_all", input, output);
  const auto sent = checked_counts("input counts", input_counts, size_, input.numel());
  const auto received = checked_counts("output counts", output_counts, size_, output.numel());
  run_all_to_all(input, sent, output, received);
}

void Communicator::send(const at::Tensor& tensor, int to) {
  check_tensor("send", tensor);
  check_peer("send", to);
  if (to == rank_) refuse("send", "a rank cannot send to itself");
  if (tensor.numel() > 0) run_send(tensor, to);
}

void Communicator::receive(const at::Tensor& tensor, int from) {
  check_tensor("receive", tensor);
  check_peer("receive", from);
  if (from == rank_) refuse("receive", "a rank cannot receive from itself");
  if (tensor.numel() > 0) run_receive(tensor, from);
}

void Communicator::barrier() {
  const at::Tensor one = at::ones({1}, at::TensorOptions().dtype(at::kLong).device(barrier_device()));
  run_all_reduce(one, Reduction::sum);
  const auto met = one.item<std::int64_t>();
  throw_failure();
  if (met != size_) throw CommunicationError(fmt::format("a barrier of {} ranks counted {}", size_, met));
}

Result<std::unique_ptr<Communicator>> make_communicator(Backend backend, const Place& place, at::Device device,
                                                        std::chrono::milliseconds timeout) {
  if (place.size == 1) return make_single_rank(device);
  // The libraries write to sockets whose other end may be a rank that died: that is an error to them, and must not be
  // the end of this process.
  std::signal(SIGPIPE, SIG_IGN);
  return backend == Backend::gloo ? make_gloo(place, timeout) : make_nccl(place, device, timeout);
}

}  // namespace muster::communicate

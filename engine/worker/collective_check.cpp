#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <numeric>

#include "json/fields.hpp"
#include "worker/task.hpp"

namespace muster::worker {
namespace {

using communicate::Communicator;
using communicate::Reduction;

// Values that are exact in float32, and different on every rank: 1000 × rank + position.
at::Tensor numbers(int rank, std::int64_t count, at::TensorOptions options) {
  return at::arange(count, options) + 1000 * rank;
}

// Each kind of collective once; the name of the first whose result is wrong, or nothing.
struct Trial {
  Communicator& ranks;
  at::TensorOptions options;
  int tried = 0;
  std::string wrong = "";

  void compare(const char* name, const at::Tensor& seen, const at::Tensor& expected) {
    ++tried;
    if (wrong.empty() && !at::equal(seen, expected)) wrong = name;
  }

  at::Tensor of_all(std::int64_t count) {
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < ranks.size(); ++rank) parts.push_back(numbers(rank, count, options));
    return at::stack(parts);  // [ranks, count]
  }

  void run() {
    constexpr std::int64_t count = 7;
    const int rank = ranks.rank(), size = ranks.size();
    const at::Tensor all = of_all(count);
    at::Tensor tensor = numbers(rank, count, options);
    ranks.broadcast(tensor, size - 1);
    compare("broadcast", tensor, all[size - 1]);

    tensor = numbers(rank, count, options);
    ranks.all_reduce(tensor);
    compare("all_reduce (sum)", tensor, all.sum(0));
    tensor = numbers(rank, count, options);
    ranks.all_reduce(tensor, Reduction::maximum);
    compare("all_reduce (maximum)", tensor, all[size - 1]);

    at::Tensor gathered = at::zeros({size, count}, options);
    ranks.all_gather(numbers(rank, count, options), gathered);
    compare("all_gather", gathered, all);

    at::Tensor scattered = at::zeros({count}, options);
    ranks.reduce_scatter(numbers(rank, count * size, options), scattered);
    compare("reduce_scatter", scattered, of_all(count * size).sum(0).narrow(0, rank * count, count));

    at::Tensor exchanged = at::zeros({size, count}, options);
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(size), count);
    ranks.all_to_all(numbers(rank, count * size, options), counts, exchanged, counts);
    compare("all_to_all", exchanged, of_all(count * size).narrow(1, rank * count, count).contiguous());

    pass_on(count, all);
  }

  // Around the ring: even ranks send first.
  void pass_on(std::int64_t count, const at::Tensor& all) {
    const int rank = ranks.rank(), size = ranks.size();
    if (size == 1) return;
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    at::Tensor received = at::zeros({count}, options);
    if (rank % 2 == 0) ranks.send(numbers(rank, count, options), next);
    ranks.receive(received, last);
    if (rank % 2 == 1) ranks.send(numbers(rank, count, options), next);
    compare("send and receive", received, all[last]);
  }
};

double fastest_all_reduce(Communicator& ranks, const wire::CollectiveCheck& task, at::TensorOptions options) {
  const at::Tensor tensor = at::zeros({task.elements}, options);
  double fastest = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < task.repeats; ++repeat) {
    ranks.barrier();
    const auto began = std::chrono::steady_clock::now();
    ranks.all_reduce(tensor);
    ranks.barrier();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
    fastest = std::min(fastest, took.count());
  }
  return fastest;
}

}  // namespace

Result<void> run_task(const wire::CollectiveCheck& task, Job& job) {
  auto joined = job.join_ranks();
  if (!joined) return joined.error();
  Communicator& ranks = **joined;
  job.ready();
  Trial trial{ranks, at::TensorOptions().dtype(at::kFloat).device(job.device)};
  trial.run();
  if (!trial.wrong.empty())
    return Error{Error::Kind::failed, fmt::format("{} gave a wrong result", trial.wrong),
                 "run it again with NCCL_DEBUG=INFO or GLOO_SOCKET_IFNAME set, and look at the hardware of the link"};
  wire::CollectiveReport report;
  report.milliseconds = fastest_all_reduce(ranks, task, trial.options);
  report.backend = std::string(ranks.size() == 1 ? "single" : wire::to_word(job.assignment().backend));
  report.device = job.device.str();
  report.ranks = ranks.size();
  report.collectives = trial.tried;
  if (ranks.rank() == 0) job.channel.tell(wire::TaskResult{0, print_fields(report)});
  return {};
}

}  // namespace muster::worker

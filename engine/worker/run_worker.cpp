#include "worker/run_worker.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdio>

#include "worker/failure_boundary.hpp"
#include "worker/job.hpp"
#include "worker/task.hpp"

#ifdef MUSTER_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace muster::worker {
namespace {

int visible_gpus() {
#ifdef MUSTER_CUDA
  return c10::cuda::device_count();
#else
  return 0;
#endif
}

// GPUs go by local rank. Ranks share them only where the assignment says so, by its backend.
Result<at::Device> choose_device(const wire::Assignment& assignment, const communicate::Place& place) {
  if (assignment.device == wire::DeviceKind::cpu) return at::Device(at::kCPU);
  const int gpus = visible_gpus();
  const bool shared = assignment.backend != wire::Backend::nccl;
  if (gpus == 0 || (!shared && place.local_rank >= gpus))
    return Error{Error::Kind::refused,
                 fmt::format("local rank {} needs a GPU of its own, and torch sees {}", place.local_rank, gpus),
                 "muster doctor checks driver and GPUs; a torch without CUDA sees none"};
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(place.local_rank % gpus));
#ifdef MUSTER_CUDA
  c10::cuda::set_device(device.index());
#endif
  return device;
}

// NCCL refuses two ranks of a host on one GPU. What the user has set stays.
void pass_for_a_host(const communicate::Place& place) {
  constexpr int keep = 0;
  ::setenv("NCCL_HOSTID", fmt::format("rank{}", place.rank).c_str(), keep);
  for (const auto& [name, value] :
       {std::pair{"NCCL_NET", "Socket"}, std::pair{"NCCL_IB_DISABLE", "1"}, std::pair{"NCCL_SOCKET_IFNAME", "lo"},
        std::pair{"NCCL_MAX_NCHANNELS", "1"}, std::pair{"NCCL_MAX_CTAS", "1"}})
    ::setenv(name, value, keep);
}

Result<void> carry_out(wire::WorkerChannel& channel, const communicate::Place& place) {
  at::set_num_threads(channel.assignment().threads);
  const auto device = choose_device(channel.assignment(), place);
  if (!device) return device.error();
  if (channel.assignment().backend == wire::Backend::nccl_on_shared_gpus) pass_for_a_host(place);
  Job job{channel, place, *device};
  return std::visit([&](const auto& task) { return run_task(task, job); }, channel.assignment().task);
}

}  // namespace

Result<std::unique_ptr<communicate::Communicator>> Job::join(const communicate::Place& at) const {
  const auto backend =
      assignment().backend == wire::Backend::gloo ? communicate::Backend::gloo : communicate::Backend::nccl;
  return communicate::make_communicator(backend, at, device, assignment().timeout);
}

int run_worker(wire::WorkerChannel& channel, const communicate::Place& place) {
  const auto failed = catch_failures([&] { return carry_out(channel, place); });
  if (failed) return tell_failure(channel, *failed);
  channel.tell(wire::Done{});
  return 0;
}

}  // namespace muster::worker

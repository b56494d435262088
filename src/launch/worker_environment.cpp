#include "launch/worker_environment.hpp"

#include <unistd.h>

#include <cstring>

#include "base/text.hpp"

namespace muster::launch {
namespace {

// The numbers that say where a rank stands. With a HostPlace, this launcher's ranks are some of the host's.
void set_place(Environment& environment, const LaunchRequest& request, const rendezvous::Start& round, int local_rank) {
  const HostPlace place =
      request.place.value_or(HostPlace{0, request.local_ranks, round.group_rank, round.group_world_size});
  const bool first_device =
      request.contract == Contract::virtual_local_rank || request.contract == Contract::own_gpu_first;
  const auto set = [&](const char* name, int value) { environment[name] = std::to_string(value); };
  set("LOCAL_RANK", first_device ? 0 : place.first_local_rank + local_rank);
  set("RANK", round.first_rank + local_rank);
  set("GROUP_RANK", place.host_index);
  set("ROLE_RANK", round.first_role_rank + local_rank);
  set("LOCAL_WORLD_SIZE", place.local_world_size);
  set("WORLD_SIZE", round.world_size);
  set("GROUP_WORLD_SIZE", place.host_count);
  set("ROLE_WORLD_SIZE", round.role_world_size);
  environment["ROLE_NAME"] = request.role;
}

}  // namespace

Environment current_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals != nullptr)
      environment.emplace(std::string_view(*entry, static_cast<std::size_t>(equals - *entry)), equals + 1);
  }
  return environment;
}

Environment worker_environment(const Environment& inherited, const LaunchRequest& request,
                               const RankResources& resources, const rendezvous::Start& round, const StorePlace& store,
                               int local_rank, const std::string& error_file) {
  Environment environment = inherited;
  environment.erase("MUSTER_RDZV_SECRET");  // the launchers' own: ranks have no use for it
  set_place(environment, request, round, local_rank);
  environment["MASTER_ADDR"] = store.address;
  environment["MASTER_PORT"] = std::to_string(store.port);
  environment["TORCHELASTIC_RESTART_COUNT"] = std::to_string(round.restart_count);
  environment["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(request.maximum_restarts);
  environment["TORCHELASTIC_RUN_ID"] = request.run_id;
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";  // Python's spelling: ranks compare with it
  environment["TORCHELASTIC_ERROR_FILE"] = error_file;
  environment["TORCHELASTIC_SIGNALS_TO_HANDLE"] = request.signals.ending_as_written;
  environment.emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (resources.threads) environment.emplace("OMP_NUM_THREADS", std::to_string(*resources.threads));
  for (const auto& [name, value] : resources.environment) environment[name] = value;
  const auto position = static_cast<std::size_t>(local_rank);
  if (position < resources.masks.size() && resources.masks[position])
    environment["CUDA_VISIBLE_DEVICES"] = *resources.masks[position];
  return environment;
}

}  // namespace muster::launch

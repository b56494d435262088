#include "launch/worker_environment.hpp"

#include <gtest/gtest.h>

namespace muster::launch {
namespace {

LaunchRequest two_ranks() {
  LaunchRequest request;
  request.run_id = "run";
  request.local_ranks = 2;
  request.maximum_restarts = 3;
  request.signals.ending_as_written = "SIGTERM";
  return request;
}

const rendezvous::Start second_host{4, 1, 1, 2, 2, 4, 2, 4};
const StorePlace store{"10.0.0.1", 29500};

Environment environment_of(const LaunchRequest& request, int local_rank, const RankResources& resources = {},
                           const Environment& inherited = {}) {
  return worker_environment(inherited, request, resources, second_host, store, local_rank, "/logs/1/error.json");
}

TEST(WorkerEnvironment, HoldsTheWholeContract) {
  const Environment expected{{"LOCAL_RANK", "1"},
                             {"RANK", "3"},
                             {"GROUP_RANK", "1"},
                             {"ROLE_RANK", "3"},
                             {"ROLE_NAME", "default"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"WORLD_SIZE", "4"},
                             {"GROUP_WORLD_SIZE", "2"},
                             {"ROLE_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "10.0.0.1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RESTART_COUNT", "1"},
                             {"TORCHELASTIC_MAX_RESTARTS", "3"},
                             {"TORCHELASTIC_RUN_ID", "run"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCHELASTIC_ERROR_FILE", "/logs/1/error.json"},
                             {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM"},
                             {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}};
  EXPECT_EQ(environment_of(two_ranks(), 1), expected);
}

TEST(WorkerEnvironment, KeepsWhatWasInheritedAndDoesNotOverrideTheUsersChoices) {
  RankResources resources;
  resources.threads = 4;
  const Environment environment = environment_of(
      two_ranks(), 0, resources,
      {{"HOME", "/home/a"}, {"OMP_NUM_THREADS", "7"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}, {"RANK", "99"}});
  EXPECT_EQ(environment.at("HOME"), "/home/a");
  EXPECT_EQ(environment.at("OMP_NUM_THREADS"), "7");
  EXPECT_EQ(environment.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "3");
  EXPECT_EQ(environment.at("RANK"), "2");
}

TEST(WorkerEnvironment, LeavesTheMaskAsInheritedUnlessOneIsGiven) {
  RankResources resources;
  resources.masks = {std::nullopt, "5"};
  EXPECT_EQ(environment_of(two_ranks(), 0, resources, {{"CUDA_VISIBLE_DEVICES", "4,5"}}).at("CUDA_VISIBLE_DEVICES"),
            "4,5");
  EXPECT_EQ(environment_of(two_ranks(), 1, resources, {{"CUDA_VISIBLE_DEVICES", "4,5"}}).at("CUDA_VISIBLE_DEVICES"),
            "5");
  EXPECT_FALSE(environment_of(two_ranks(), 0, resources).contains("CUDA_VISIBLE_DEVICES"));
}

TEST(WorkerEnvironment, CountsLocalRanksByContract) {
  LaunchRequest request = two_ranks();
  for (const auto& [contract, local_rank] :
       std::initializer_list<std::pair<Contract, const char*>>{{Contract::collective, "1"},
                                                               {Contract::isolated, "1"},
                                                               {Contract::own_gpu_first, "0"},
                                                               {Contract::virtual_local_rank, "0"}}) {
    request.contract = contract;
    EXPECT_EQ(environment_of(request, 1).at("LOCAL_RANK"), local_rank) << to_word(contract);
  }
}

TEST(WorkerEnvironment, TellsTheRanksOfOneTaskTheirPlaceAmongAllOfTheHost) {
  LaunchRequest request = two_ranks();
  request.local_ranks = 1;
  request.place = HostPlace{3, 4, 0, 1};
  const Environment environment = environment_of(request, 0);
  EXPECT_EQ(environment.at("LOCAL_RANK"), "3");
  EXPECT_EQ(environment.at("LOCAL_WORLD_SIZE"), "4");
  EXPECT_EQ(environment.at("GROUP_RANK"), "0");
  EXPECT_EQ(environment.at("GROUP_WORLD_SIZE"), "1");
  EXPECT_EQ(environment.at("RANK"), "2");
}

}  // namespace
}  // namespace muster::launch

#include "launch/slurm.hpp"

#include <gtest/gtest.h>

namespace muster::launch {
namespace {

using Hosts = std::vector<std::string>;

TEST(HostList, ExpandsRangesAndKeepsLeadingZeros) {
  EXPECT_EQ(*expand_host_list("node[01-03,07],login"), (Hosts{"node01", "node02", "node03", "node07", "login"}));
  EXPECT_EQ(*expand_host_list("a,b"), (Hosts{"a", "b"}));
  EXPECT_EQ(*expand_host_list("gpu-[9-11]"), (Hosts{"gpu-9", "gpu-10", "gpu-11"}));
  EXPECT_EQ(*expand_host_list("rack1-[1],rack2-[2-3]"), (Hosts{"rack1-1", "rack2-2", "rack2-3"}));
}

TEST(HostList, RefusesWhatIsNoList) {
  for (const char* text :
       {"", ",", "a,,b", "node[1-", "node[3-1]", "node[x]", "node[1-2-3]", "node[1]x", "node[0-99999999]"})
    EXPECT_FALSE(expand_host_list(text)) << text;
}

Environment step(std::initializer_list<std::pair<const std::string, std::string>> more = {}) {
  Environment environment{{"SLURM_PROCID", "5"},         {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "2"},         {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_NUM_NODES", "4"},
                          {"SLURM_JOB_ID", "4711"},      {"SLURM_JOB_NODELIST", "n[1-4]"},
                          {"SLURM_NTASKS", "8"},         {"SLURM_TASKS_PER_NODE", "2(x4)"}};
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

TEST(Slurm, IsAbsentWithoutItsVariables) { EXPECT_FALSE(slurm_task({})->has_value()); }

TEST(Slurm, TellsATaskItsPlace) {
  const auto task = slurm_task(step());
  ASSERT_TRUE(task && *task);
  EXPECT_EQ((*task)->rank, 5);
  EXPECT_EQ((*task)->task_count, 8);
  EXPECT_EQ((*task)->local_rank, 1);
  EXPECT_EQ((*task)->local_task_count, 2);
  EXPECT_EQ((*task)->host_index, 2);
  EXPECT_EQ((*task)->host_count, 4);
  EXPECT_EQ((*task)->first_host, "n1");
  EXPECT_EQ((*task)->job, "4711.0");
}

TEST(Slurm, CountsTheTasksOfTheTasksOwnHost) {
  const auto task = slurm_task(step({{"SLURM_STEP_TASKS_PER_NODE", "1(x2),3,3"}}));
  ASSERT_TRUE(task && *task);
  EXPECT_EQ((*task)->local_task_count, 3);
}

TEST(Slurm, TakesTheBatchScriptForOneProcess) {
  Environment batch = step({{"ENVIRONMENT", "BATCH"}});
  batch.erase("SLURM_STEP_ID");
  EXPECT_FALSE(slurm_task(batch)->has_value());
  batch["SLURM_STEP_ID"] = "0";  // a step that the script started inherits ENVIRONMENT
  EXPECT_TRUE(slurm_task(batch)->has_value());
}

TEST(Slurm, RefusesNumbersThatDoNotAgreeAndNamesThem) {
  const auto task = slurm_task(step({{"SLURM_PROCID", "9"}}));
  ASSERT_FALSE(task);
  EXPECT_NE(task.error().what.find("SLURM_PROCID=9"), std::string::npos);
  const auto text = slurm_task(step({{"SLURM_LOCALID", "one"}}));
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().what.find("SLURM_LOCALID=\"one\""), std::string::npos);
}

TEST(Slurm, NeedsTheListOfHostsWhereThereAreSeveral) {
  Environment environment = step();
  environment.erase("SLURM_JOB_NODELIST");
  EXPECT_FALSE(slurm_task(environment));
}

TEST(Slurm, EveryTaskOfAStepComesToTheSamePortOutsideTheKernelsOwnRange) {
  EXPECT_EQ(slurm_port("4711.0"), slurm_port("4711.0"));
  EXPECT_NE(slurm_port("4711.0"), slurm_port("4711.1"));
  for (int job = 0; job < 5000; ++job) {
    const int port = slurm_port(std::to_string(job));
    EXPECT_GE(port, 20000);
    EXPECT_LT(port, 32000);
  }
}

TEST(Slurm, SaysWhenTheJobEnds) {
  EXPECT_FALSE(slurm_job_end({}));
  EXPECT_FALSE(slurm_job_end({{"SLURM_JOB_END_TIME", "soon"}}));
  const auto end = slurm_job_end({{"SLURM_JOB_END_TIME", "1800000000"}});
  ASSERT_TRUE(end);
  EXPECT_EQ(std::chrono::system_clock::to_time_t(*end), 1800000000);
}

}  // namespace
}  // namespace muster::launch

// Failures made for real, and found by the probe.
#include "doctor/host_probe.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "doctor/machine_probe.hpp"
#include "doctor/network_probe.hpp"
#include "doctor/worker_probe.hpp"
#include "doctor_fixture.hpp"
#include "testing/environment_variable.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::doctor {
namespace {

using std::chrono::milliseconds;
using testing::EnvironmentVariable;
using testing::ScratchFolder;

constexpr const char* two_gpus =
    "gpus:\n"
    "  - {uuid: GPU-aaaaaaaa-0000-0000-0000-000000000000, name: H200, memory_total: 140GiB}\n"
    "  - {uuid: GPU-bbbbbbbb-0000-0000-0000-000000000000, name: H200, memory_total: 140GiB}\n";
constexpr const char* uuid_a = "GPU-aaaaaaaa-0000-0000-0000-000000000000";
constexpr const char* uuid_b = "GPU-bbbbbbbb-0000-0000-0000-000000000000";

// Stands in the worker's place; with UUIDs as the mask, what it is given is what it sees.
constexpr const char* honest_worker =
    "#!/bin/sh\n"
    "if [ -n \"$CUDA_VISIBLE_DEVICES\" ]; then seen=\"\\\"$CUDA_VISIBLE_DEVICES\\\"\"; fi\n"
    "echo \"{\\\"pid\\\": $$, \\\"mask\\\": \\\"$CUDA_VISIBLE_DEVICES\\\", \\\"device_order\\\": "
    "\\\"$CUDA_DEVICE_ORDER\\\", "
    "\\\"visible\\\": [$seen], \\\"problem\\\": null}\"\n";

class DoctorProbe : public ::testing::Test {
 protected:
  DoctorProbe() {
    sources_.lease_folder = folder_.path() / "leases";
    sources_.inventory_file = folder_.write("gpus.yaml", two_gpus);
    sources_.mask = std::string(uuid_a) + "," + uuid_b;
    settings_.working_folder = settings_.temporary_folder = folder_.path();
    use_worker(honest_worker);
  }

  void use_worker(std::string_view script) {
    const auto file = folder_.write("worker", script);
    ::chmod(file.c_str(), 0755);
    settings_.worker = {file.string()};
  }

  // A file below the scratch folder, with the folders on the way to it.
  void make(const std::filesystem::path& path, std::string_view text) {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    folder_.write(path.string(), text);
  }

  Check probe(std::string_view name) { return judge(probe_host(sources_, settings_), name); }

  ScratchFolder folder_;
  host::HostSources sources_;
  ProbeSettings settings_;
};

TEST_F(DoctorProbe, FindsTheGpusAndThatEachWorkerSeesItsOwn) {
  const auto checks = examine(probe_host(sources_, settings_));
  EXPECT_TRUE(has(find(checks, "inventory").finding, "2 GPUs: 2 × H200")) << find(checks, "inventory").finding;
  EXPECT_EQ(find(checks, "workers").outcome, CheckOutcome::pass) << find(checks, "workers").finding;
  EXPECT_TRUE(has(find(checks, "workers").finding, "2 started")) << find(checks, "workers").finding;
  EXPECT_EQ(find(checks, "leases").outcome, CheckOutcome::pass) << find(checks, "leases").finding;
}

TEST_F(DoctorProbe, JudgesTheRestWhenTheMaskIsBad) {
  sources_.mask = "0,9";
  const auto checks = examine(probe_host(sources_, settings_));
  EXPECT_EQ(find(checks, "mask").outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(find(checks, "mask").finding, "there is no GPU 9")) << find(checks, "mask").finding;
  EXPECT_EQ(find(checks, "inventory").outcome, CheckOutcome::pass);
  EXPECT_EQ(find(checks, "leases").outcome, CheckOutcome::pass);
  EXPECT_TRUE(has(find(checks, "workers").finding, "2 CPU workers")) << find(checks, "workers").finding;
}

TEST_F(DoctorProbe, JudgesTheRestWhenTheInventoryFileIsBroken) {
  sources_.inventory_file = folder_.write("gpus.yaml", "gpus: [{memory_totl: 1GiB}]");
  const auto checks = examine(probe_host(sources_, settings_));
  EXPECT_EQ(find(checks, "inventory").outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(find(checks, "inventory").finding, "memory_totl")) << find(checks, "inventory").finding;
  EXPECT_EQ(find(checks, "leases").outcome, CheckOutcome::pass);
  EXPECT_EQ(find(checks, "workers").outcome, CheckOutcome::pass) << find(checks, "workers").finding;
}

TEST_F(DoctorProbe, FailsWhenAFileStandsInPlaceOfTheLeaseFolder) {
  sources_.lease_folder = folder_.write("leases", "");
  const Check check = probe("leases");
  EXPECT_EQ(check.outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(check.finding, sources_.lease_folder.string())) << check.finding;
  EXPECT_NE(check.remedy, "");
}

TEST_F(DoctorProbe, NamesTheHolderOfALease) {
  lease::LeaseTable table(sources_.lease_folder);
  const std::array<std::string, 1> wanted{uuid_b};
  const auto held = table.acquire(wanted, {"train.py"});
  ASSERT_TRUE(held);
  const Check check = probe("leases");
  EXPECT_TRUE(has(check.finding, std::string(uuid_b) + " by pid " + std::to_string(::getpid()))) << check.finding;
}

TEST_F(DoctorProbe, FailsWhenTheWorkerProgramDoesNotExist) {
  settings_.worker = {"/nonexistent/worker"};
  const Check check = probe("workers");
  EXPECT_EQ(check.outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(check.finding, "cannot run /nonexistent/worker: No such file")) << check.finding;
}

TEST_F(DoctorProbe, FailsWhenAWorkerSeesAnotherGpu) {
  use_worker(std::string("#!/bin/sh\nCUDA_VISIBLE_DEVICES=") + uuid_a + "\n" + honest_worker);
  const Check check = probe("workers");
  EXPECT_EQ(check.outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(check.finding, "the worker for GPU 1")) << check.finding;
  EXPECT_FALSE(has(check.finding, "the worker for GPU 0")) << check.finding;
}

TEST_F(DoctorProbe, FailsWhenAWorkerSaysSomethingElse) {
  use_worker("#!/bin/sh\necho hello\n");
  const Check check = probe("workers");
  EXPECT_EQ(check.outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(check.finding, "\"hello\"")) << check.finding;
}

TEST_F(DoctorProbe, FailsWhenAWorkerCrashesAndRepeatsItsWords) {
  use_worker("#!/bin/sh\necho no such luck >&2\nkill -SEGV $$\n");
  const Check check = probe("workers");
  EXPECT_EQ(check.outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(check.finding, "signal 11") && has(check.finding, "no such luck")) << check.finding;
}

TEST_F(DoctorProbe, FailsWhenAWorkerHangs) {
  use_worker("#!/bin/sh\nsleep 1000\n");
  settings_.worker_limit = milliseconds(200);
  const Check check = probe("workers");
  EXPECT_EQ(check.outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(check.finding, "still running after")) << check.finding;
}

TEST_F(DoctorProbe, StartsAtMostEightWorkers) {
  sources_.inventory_file = folder_.write("gpus.yaml", "count: 10\ngpus: [{memory_total: 1GiB}]");
  sources_.mask.reset();
  EXPECT_EQ(probe_host(sources_, settings_).workers.size(), 8U);
}

TEST_F(DoctorProbe, StartsNoWorkerOnALostGpu) {
  host::HostView view;
  view.snapshot = *healthy().snapshot;
  view.snapshot.gpus[0].lost = true;
  view.visible = *gpu::read_mask(std::nullopt, view.snapshot.gpus);
  const auto workers = probe_workers(view, sources_, settings_.worker, milliseconds(60000));
  ASSERT_EQ(workers.size(), 1U);
  EXPECT_EQ(workers[0].gpu, 1);
  EXPECT_EQ(workers[0].mask, "GPU-00000001") << "numbers are not sure beside a lost GPU";
}

TEST_F(DoctorProbe, FailsWhenTheWorkingFolderIsGone) {
  settings_.working_folder = folder_.path() / "gone";
  const Check check = probe("disk");
  EXPECT_EQ(check.outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(check.finding, "gone cannot be written: No such file")) << check.finding;
}

TEST_F(DoctorProbe, WarnsWhenAnInstructionSetTraps) {
  const InstructionSet trapping{"amx_bf16", [] { return true; },
                                [] {
                                  ::raise(SIGILL);
                                  return ProbeAnswer::done;
                                }};
  const EnvironmentVariable unset("ONEDNN_MAX_CPU_ISA", std::nullopt);
  settings_.instruction_sets = {&trapping, 1};
  const Check check = probe("instruction sets");
  EXPECT_EQ(check.outcome, CheckOutcome::warning);
  EXPECT_TRUE(has(check.finding, "signal 4")) << check.finding;
  EXPECT_TRUE(has(check.remedy, "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16")) << check.remedy;
}

TEST_F(DoctorProbe, FailsWithTheFixWhenNvmlLostItsDevices) {
  const EnvironmentVariable file("MUSTER_NVML_STUB_INVENTORY", sources_.inventory_file->string()),
      fault("MUSTER_NVML_STUB_FAIL", "init=999");
  sources_.inventory_file.reset();
  sources_.nvml_library = MUSTER_NVML_STUB;
  const Check check = probe("nvml");
  EXPECT_EQ(check.outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(check.finding, "999")) << check.finding;
  EXPECT_TRUE(has(check.remedy, "restart the container")) << check.remedy;
}

TEST_F(DoctorProbe, FailsWhenNvmlReportsALostGpu) {
  const EnvironmentVariable file("MUSTER_NVML_STUB_INVENTORY", sources_.inventory_file->string()),
      fault("MUSTER_NVML_STUB_FAIL", "lost=1");
  sources_.inventory_file.reset();
  sources_.nvml_library = MUSTER_NVML_STUB;
  const Check check = probe("inventory");
  EXPECT_EQ(check.outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(check.finding, "GPU 1 is sick: lost")) << check.finding;
}

TEST_F(DoctorProbe, FindsHardwareWithoutADriverInTheKernelsFolders) {
  make("sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de\n");
  make("sys/bus/pci/devices/0000:3b:00.0/class", "0x030200\n");
  make("sys/bus/pci/devices/0000:3b:00.1/vendor", "0x10de\n");
  make("sys/bus/pci/devices/0000:3b:00.1/class", "0x040300\n");  // its audio function
  make("dev/nvidia0", "");
  make("dev/nvidiactl", "");
  make("dev/nvidia-uvm", "");
  const DriverFacts facts = probe_driver(folder_.path() / "proc", folder_.path() / "sys", folder_.path() / "dev");
  EXPECT_EQ(facts.module_version, std::nullopt);
  EXPECT_EQ(facts.pci_devices, std::vector<std::string>{"0000:3b:00.0"});
  EXPECT_EQ(facts.device_files, std::vector<std::string>{(folder_.path() / "dev/nvidia0").string()});
  make("proc/driver/nvidia/version",
       "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\n");
  EXPECT_EQ(probe_driver(folder_.path() / "proc", folder_.path() / "sys", folder_.path() / "dev").module_version,
            "580.159.03");
}

TEST_F(DoctorProbe, ReadsTheTightestMemoryLimitAroundTheProcess) {
  make("proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:    8388608 kB\n");
  make("proc/self/cgroup", "0::/job/step\n");
  make("sys/fs/cgroup/job/step/memory.max", "max\n");
  make("sys/fs/cgroup/job/step/memory.current", "5\n");
  make("sys/fs/cgroup/job/memory.max", "1073741824\n");
  make("sys/fs/cgroup/job/memory.current", "805306368\n");
  make("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 268435456\n");
  const host::MemoryFacts facts = host::probe_memory(folder_.path() / "proc", folder_.path() / "sys", folder_.path() / "dev");
  EXPECT_EQ(facts.available, gibibytes(8));
  EXPECT_EQ(facts.group_available, mebibytes(512));
  EXPECT_EQ(facts.shared_file_size, std::nullopt);
}

TEST_F(DoctorProbe, ReadsTheMemoryLimitOfTheFirstGenerationOfGroups) {
  make("proc/self/cgroup", "11:cpu,cpuacct:/x\n4:memory:/slurm/job_1\n");
  make("sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes", "2147483648\n");
  make("sys/fs/cgroup/memory/slurm/job_1/memory.usage_in_bytes", "1073741824\n");
  make("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  make("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  EXPECT_EQ(host::probe_memory(folder_.path() / "proc", folder_.path() / "sys", folder_.path() / "dev").group_available,
            gibibytes(1));
}

TEST(DoctorNetwork, ExchangesAByteOverLoopback) { EXPECT_EQ(try_loopback(milliseconds(30000)), std::nullopt); }

TEST(DoctorNetwork, KnowsItsOwnAddressFromAnothers) {
  NetworkFacts own, other;
  own.host_name = "127.0.0.1";
  resolve_host_name(own, milliseconds(30000));
  EXPECT_EQ(own.local_addresses, std::vector<std::string>{"127.0.0.1"});
  other.host_name = "192.0.2.1";  // kept for documentation: nobody's
  resolve_host_name(other, milliseconds(30000));
  EXPECT_EQ(other.host_addresses, std::vector<std::string>{"192.0.2.1"});
  EXPECT_TRUE(other.local_addresses.empty());
}

TEST(DoctorNetwork, SaysWhyANameDoesNotResolve) {
  NetworkFacts facts;
  facts.host_name = "not a host name";
  resolve_host_name(facts, milliseconds(30000));
  EXPECT_TRUE(facts.resolution_failure.has_value());
  EXPECT_TRUE(facts.host_addresses.empty());
}

TEST(DoctorNetwork, DoesNotWaitForANameServiceThatHangs) {
  NetworkFacts facts;
  facts.host_name = "node7";
  resolve_host_name(facts, milliseconds(50), [](const std::string&) -> std::string {
    while (true) ::pause();
  });
  EXPECT_TRUE(has(facts.resolution_failure.value_or(""), "the name service: still running after"))
      << facts.resolution_failure.value_or("");
}

TEST(WorkerReport, IsReadBackAsItWasWritten) {
  const ScratchFolder folder;
  const EnvironmentVariable order("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  host::HostSources sources;
  sources.inventory_file = folder.write("gpus.yaml", two_gpus);
  sources.lease_folder = folder.path() / "leases";
  sources.mask = "1";
  const auto report = parse_worker_report(worker_report(sources));
  ASSERT_TRUE(report) << report.error().what;
  EXPECT_EQ(report->pid, ::getpid());
  EXPECT_EQ(report->mask, "1");
  EXPECT_EQ(report->device_order, "PCI_BUS_ID");
  EXPECT_EQ(report->visible, std::vector<std::string>{uuid_b});
}

TEST(WorkerReport, SaysWhyAMaskCannotBeRead) {
  const ScratchFolder folder;
  host::HostSources sources;
  sources.inventory_file = folder.write("gpus.yaml", two_gpus);
  sources.lease_folder = folder.path() / "leases";
  sources.mask = "5";
  const auto report = parse_worker_report(worker_report(sources));
  ASSERT_TRUE(report) << report.error().what;
  EXPECT_EQ(report->visible, std::nullopt);
  EXPECT_TRUE(has(report->problem.value_or(""), "there is no GPU 5"));
}

}  // namespace
}  // namespace muster::doctor

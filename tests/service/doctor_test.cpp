// Each check with its failure injected: by one changed fact, and for real where a failure can be made.
#include "service/doctor.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "service/host_probe.hpp"
#include "service/machine_probe.hpp"
#include "service/network_probe.hpp"
#include "service/worker_probe.hpp"
#include "testing/environment_variable.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::service {
namespace {

using testing::EnvironmentVariable;
using testing::ScratchFolder;
using std::chrono::milliseconds;
using std::chrono::seconds;

const Check& find(const std::vector<Check>& checks, std::string_view name) {
  const auto found = std::ranges::find(checks, name, &Check::name);
  if (found == checks.end()) throw std::logic_error("no such check: " + std::string(name));
  return *found;
}

Check judge(const HostFacts& facts, std::string_view name) { return find(examine(facts), name); }

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

gpu::Gpu gpu_number(int index, std::string name) {
  gpu::Gpu gpu;
  gpu.facts.index = gpu::GpuIndex{index};
  gpu.facts.uuid = gpu::GpuUuid{"GPU-0000000" + std::to_string(index)};
  gpu.facts.name = std::move(name);
  return gpu;
}

// A machine with two GPUs on which everything is as it should be.
HostFacts healthy() {
  HostFacts facts;
  gpu::Snapshot snapshot;
  snapshot.source = "NVML";
  snapshot.driver_version = "580.1";
  snapshot.cuda_version = "13.0";
  snapshot.gpus = {gpu_number(0, "H200"), gpu_number(1, "H200")};
  facts.snapshot = snapshot;
  facts.driver = {"580.1", {"/dev/nvidia0", "/dev/nvidia1"}, {"0000:3b:00.0", "0000:5e:00.0"}};
  facts.device_order = "PCI_BUS_ID";
  facts.lease_folder = "/run/lock/muster";
  facts.clock = {seconds(1800000000), seconds(1790000000), milliseconds(0), true};
  facts.memory = {gibibytes(64), std::nullopt, gibibytes(8)};
  facts.folders = {{"working folder", "/work", gibibytes(100), std::nullopt}, {"temporary folder", "/tmp", gibibytes(50), std::nullopt}};
  facts.network.host_name = "node7";
  facts.network.host_addresses = facts.network.local_addresses = {"10.0.0.7"};
  facts.open_files = {65536, 65536};
  for (const char* name : {"avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"})
    facts.instruction_sets.push_back({name, InstructionSetOutcome::works, std::nullopt});
  for (const int index : {0, 1}) {
    const std::string uuid = "GPU-0000000" + std::to_string(index);
    const WorkerReport report{4711 + index, std::to_string(index), "PCI_BUS_ID", std::vector{uuid}, std::nullopt};
    facts.workers.push_back({index, std::to_string(index), {uuid}, report});
  }
  return facts;
}

HostFacts without_gpus() {
  HostFacts facts = healthy();
  gpu::Snapshot snapshot;
  snapshot.driver = gpu::DriverState::no_driver;
  snapshot.explanation = "no NVIDIA driver library";
  facts.snapshot = snapshot;
  facts.driver = {};
  for (WorkerFacts& worker : facts.workers) worker = {std::nullopt, "", {}, WorkerReport{1, "", "PCI_BUS_ID", std::vector<std::string>{}, {}}};
  return facts;
}

TEST(Doctor, PassesAHealthyMachineInEveryCheck) {
  for (const Check& check : examine(healthy())) {
    EXPECT_EQ(check.outcome, CheckOutcome::pass) << check.name << ": " << check.finding;
    EXPECT_EQ(check.remedy, "") << check.name;
    EXPECT_NE(check.finding, "") << check.name;
  }
}

TEST(Doctor, GivesEachCheckANameOfItsOwn) {
  std::set<std::string> names;
  const auto checks = examine(healthy());
  for (const Check& check : checks) names.insert(check.name);
  EXPECT_EQ(names, (std::set<std::string>{"driver", "nvml", "inventory", "mask", "device order", "leases", "clock", "memory", "disk", "ports",
                                          "open files", "instruction sets", "workers"}));
  EXPECT_EQ(names.size(), checks.size());
}

// One fact of a healthy machine changed: which check notices, how gravely, and with which words.
struct Injection {
  const char* what;
  void (*inject)(HostFacts&);
  const char* check;
  CheckOutcome outcome;
  const char* finding;
  const char* remedy;
};

void lose_snapshot(HostFacts& facts) { facts.snapshot = Error{Error::Kind::failed, "NVML answers \"Unknown Error (999)\"", "restart the container"}; }

void trap(HostFacts& facts, std::string_view name) {
  std::ranges::find(facts.instruction_sets, name, &InstructionSetReport::name)->outcome = InstructionSetOutcome::traps;
}

constexpr auto warning = CheckOutcome::warning;
constexpr auto failure = CheckOutcome::failure;

const std::array injections{
    Injection{"NvmlError", lose_snapshot, "nvml", failure, "Unknown Error (999)", "restart the container"},
    Injection{"NvmlErrorHidesTheGpus", lose_snapshot, "inventory", failure, "not known", "check nvml"},
    Injection{"BrokenInventoryFile",
              [](HostFacts& facts) {
                facts.inventory_file = "gpus.yaml";
                facts.snapshot = Error{Error::Kind::bad_input, "gpus.yaml:3:5: no such key", ""};
              },
              "inventory", failure, "gpus.yaml:3:5", "correct the file"},
    Injection{"NoLibraryBesideALoadedModule",
              [](HostFacts& facts) {
                facts.snapshot = gpu::Snapshot{};
                facts.snapshot->driver = gpu::DriverState::no_driver;
                facts.snapshot->explanation = "no NVIDIA driver library";
              },
              "nvml", failure, "no NVIDIA driver library", "MUSTER_NVML_LIBRARY"},
    Injection{"DriverThatListsNothing",
              [](HostFacts& facts) {
                facts.snapshot->gpus.clear();
                facts.snapshot->driver = gpu::DriverState::no_devices;
                facts.snapshot->explanation = "NVML lists no GPU";
              },
              "inventory", failure, "NVML lists no GPU, but there is /dev/nvidia0", "dmesg"},
    Injection{"LostGpu", [](HostFacts& facts) { facts.snapshot->gpus[1].lost = true; }, "inventory", failure, "GPU 1 is sick: lost", "--gpu-reset"},
    Injection{"SickGpu", [](HostFacts& facts) { facts.snapshot->gpus[0].reading.recent_xids = {48}; }, "inventory", failure, "GPU 0 is sick: Xid 48",
              "--gpu-reset"},
    Injection{"MaskThatCudaCuts", [](HostFacts& facts) { facts.mask = "0,7,1"; }, "mask", failure, "there is no GPU 7", "unset it"},
    Injection{"MaskWithADuplicate", [](HostFacts& facts) { facts.mask = "1,1"; }, "mask", failure, "named twice", "unset it"},
    Injection{"MaskThatHidesAll", [](HostFacts& facts) { facts.mask = ""; }, "mask", warning, "hides all 2 GPUs", "unset CUDA_VISIBLE_DEVICES"},
    Injection{"MaskOfUnknownGpus",
              [](HostFacts& facts) {
                lose_snapshot(facts);
                facts.mask = "0";
              },
              "mask", warning, "cannot be judged", "inventory"},
    Injection{"NumbersInAnotherOrder",
              [](HostFacts& facts) {
                facts.snapshot->gpus[1].facts.name = "T4";
                facts.mask = "1";
                facts.device_order.reset();
              },
              "device order", warning, "2 models", "export CUDA_DEVICE_ORDER=PCI_BUS_ID"},
    Injection{"LeasesThatCannotBeTaken", [](HostFacts& facts) { facts.leases = Error{Error::Kind::failed, "/run/lock/muster is a file", ""}; }, "leases",
              failure, "is a file", "MUSTER_LEASE_DIR"},
    Injection{"ClockBeforeTheProgram", [](HostFacts& facts) { facts.clock.now = seconds(1780000000); }, "clock", failure,
              "it is 2026-05-28 20:26:40 UTC, but this program was written at 2026-09-21", "timedatectl"},
    Injection{"ClockBeforeEverything", [](HostFacts& facts) { facts.clock = {seconds(86400), std::nullopt, milliseconds(0), true}; }, "clock", failure,
              "1970-01-02", "timedatectl"},
    Injection{"ClockThatJumps", [](HostFacts& facts) { facts.clock.jump = milliseconds(-3000); }, "clock", failure, "jumped 3 s back", "timedatectl"},
    Injection{"ClockNotSynchronised", [](HostFacts& facts) { facts.clock.synchronised = false; }, "clock", warning, "not synchronised", "timedatectl"},
    Injection{"LittleMemory", [](HostFacts& facts) { facts.memory.available = mebibytes(1500); }, "memory", warning, "1.5 GiB available", "ps aux"},
    Injection{"HardlyAnyMemory", [](HostFacts& facts) { facts.memory.available = mebibytes(511); }, "memory", failure, "511 MiB available", "ps aux"},
    Injection{"LittleMemoryInTheGroup", [](HostFacts& facts) { facts.memory.group_available = mebibytes(300); }, "memory", failure, "300 MiB below the limit",
              "--memory"},
    Injection{"SmallSharedMemory", [](HostFacts& facts) { facts.memory.shared_file_size = mebibytes(64); }, "memory", warning, "/dev/shm holds 64",
              "--shm-size=8g"},
    Injection{"NoSharedMemory", [](HostFacts& facts) { facts.memory.shared_file_size.reset(); }, "memory", warning, "no /dev/shm", "--shm-size=8g"},
    Injection{"LittleDisk", [](HostFacts& facts) { facts.folders[0].free = gibibytes(9); }, "disk", warning, "working folder /work has 9", "du -xh /work"},
    Injection{"HardlyAnyDisk", [](HostFacts& facts) { facts.folders[1].free = mebibytes(900); }, "disk", failure, "temporary folder /tmp has 900 MiB", "TMPDIR"},
    Injection{"ReadOnlyDisk", [](HostFacts& facts) { facts.folders[0].not_writable = "Read-only file system"; }, "disk", failure, "Read-only", "--output"},
    Injection{"LoopbackDown", [](HostFacts& facts) { facts.network.loopback_failure = "cannot connect"; }, "ports", failure, "cannot connect", "ip link set lo up"},
    Injection{"NameOfAnotherHost", [](HostFacts& facts) { facts.network.local_addresses.clear(); }, "ports", warning, "\"node7\" resolves to 10.0.0.7",
              "/etc/hosts"},
    Injection{"NameThatDoesNotResolve",
              [](HostFacts& facts) {
                facts.network.host_addresses.clear();
                facts.network.local_addresses.clear();
                facts.network.resolution_failure = "Name or service not known";
              },
              "ports", warning, "does not resolve", "/etc/hosts"},
    Injection{"FewOpenFiles", [](HostFacts& facts) { facts.open_files = {1024, 1048576}; }, "open files", warning, "1024 files", "ulimit -n 65536"},
    Injection{"FewOpenFilesForGood", [](HostFacts& facts) { facts.open_files = {1024, 1024}; }, "open files", warning, "1024 files", "--ulimit nofile"},
    Injection{"TilesThatTrap", [](HostFacts& facts) { trap(facts, "amx_bf16"); }, "instruction sets", warning, "amx_bf16 is announced and",
              "export ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"},
    Injection{"BfloatThatTraps",
              [](HostFacts& facts) {
                trap(facts, "avx512_bf16");
                trap(facts, "amx_tile");
              },
              "instruction sets", warning, "avx512_bf16 is announced and", "export ONEDNN_MAX_CPU_ISA=AVX512_CORE"},
    Injection{"VectorsThatTrap", [](HostFacts& facts) { trap(facts, "avx512f"); }, "instruction sets", warning, "avx512f is announced and",
              "ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2"},
    Injection{"WorkerThatSeesAnotherGpu", [](HostFacts& facts) { facts.workers[1].report->visible = {"GPU-00000000"}; }, "workers", failure,
              "the worker for GPU 1 (pid 4712) was given GPU-00000001 and sees GPU-00000000", "LD_PRELOAD"},
    Injection{"WorkerThatSeesTooMuch", [](HostFacts& facts) { facts.workers[0].report->visible = {"GPU-00000000", "GPU-00000001"}; }, "workers", failure,
              "sees GPU-00000000, GPU-00000001", "LD_PRELOAD"},
    Injection{"WorkerWithAnotherMask", [](HostFacts& facts) { facts.workers[0].report->mask.reset(); }, "workers", failure, "has it not set", "env | grep CUDA"},
    Injection{"WorkerWithoutDeviceOrder", [](HostFacts& facts) { facts.workers[0].report->device_order = "FASTEST_FIRST"; }, "workers", failure,
              "has it \"FASTEST_FIRST\"", "env | grep CUDA"},
    Injection{"WorkerThatIsBlind", [](HostFacts& facts) { facts.workers[0].report->visible.reset(); }, "workers", failure, "cannot tell what it sees",
              "env | grep CUDA"},
    Injection{"WorkerThatFails", [](HostFacts& facts) { facts.workers[0].report = Error{Error::Kind::failed, "exit code 9", "run it"}; }, "workers", failure,
              "the worker for GPU 0: exit code 9", "run it"},
    Injection{"NoWorker", [](HostFacts& facts) { facts.workers.clear(); }, "workers", failure, "none was started", "report this"},
};

class DoctorNotices : public ::testing::TestWithParam<Injection> {};

TEST_P(DoctorNotices, OneChangedFact) {
  HostFacts facts = healthy();
  GetParam().inject(facts);
  const Check check = judge(facts, GetParam().check);
  EXPECT_EQ(check.outcome, GetParam().outcome) << check.finding;
  EXPECT_TRUE(has(check.finding, GetParam().finding)) << check.finding;
  EXPECT_TRUE(has(check.remedy, GetParam().remedy)) << check.remedy;
}

INSTANTIATE_TEST_SUITE_P(Facts, DoctorNotices, ::testing::ValuesIn(injections), [](const auto& one) { return std::string(one.param.what); });

TEST(Doctor, CapsBelowBf16WhenThatTrapsToo) {
  HostFacts facts = healthy();
  trap(facts, "avx512_bf16");
  trap(facts, "amx_bf16");
  EXPECT_FALSE(has(judge(facts, "instruction sets").remedy, "AVX512_CORE_BF16"));
}

TEST(Doctor, IsContentWithACapThatTheUserSet) {
  HostFacts facts = healthy();
  trap(facts, "amx_bf16");
  facts.onednn_maximum = "AVX512_CORE_BF16";
  const Check check = judge(facts, "instruction sets");
  EXPECT_EQ(check.outcome, CheckOutcome::pass);
  EXPECT_TRUE(has(check.finding, "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 keeps")) << check.finding;
}

TEST(Doctor, OnlyWarnsOnAMachineWithoutGpusAndDriver) {
  const auto checks = examine(without_gpus());
  EXPECT_EQ(find(checks, "driver").outcome, CheckOutcome::warning);
  EXPECT_TRUE(has(find(checks, "driver").finding, "CPU ranks only"));
  EXPECT_EQ(find(checks, "nvml").outcome, CheckOutcome::warning);
  EXPECT_EQ(std::ranges::count(checks, CheckOutcome::failure, &Check::outcome), 0);
}

TEST(Doctor, FailsWhenADeviceFileIsThereWithoutADriver) {
  HostFacts facts = without_gpus();
  facts.driver.device_files = {"/dev/nvidia0"};
  EXPECT_EQ(judge(facts, "driver").outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(judge(facts, "driver").finding, "/dev/nvidia0"));
  EXPECT_TRUE(has(judge(facts, "driver").remedy, "--gpus all"));
}

TEST(Doctor, FailsWhenAPciDeviceIsThereWithoutADriver) {
  HostFacts facts = without_gpus();
  facts.driver.pci_devices = {"0000:3b:00.0"};
  EXPECT_EQ(judge(facts, "driver").outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(judge(facts, "driver").finding, "1 NVIDIA PCI device (0000:3b:00.0)"));
  EXPECT_TRUE(has(judge(facts, "driver").remedy, "modprobe nvidia"));
}

TEST(Doctor, SaysWhichGpusTheMaskHides) {
  HostFacts facts = healthy();
  facts.mask = "GPU-00000001";
  const Check check = judge(facts, "mask");
  EXPECT_EQ(check.outcome, CheckOutcome::pass);
  EXPECT_TRUE(has(check.finding, "shows 1 device on a machine with 2 GPUs; hidden: 0")) << check.finding;
}

TEST(Doctor, DoesNotMindTheOrderWhereNoNumbersAreInherited) {
  HostFacts facts = healthy();
  facts.snapshot->gpus[1].facts.name = "T4";
  facts.device_order.reset();
  EXPECT_EQ(judge(facts, "device order").outcome, CheckOutcome::pass);
  facts.mask = "GPU-00000001";
  EXPECT_EQ(judge(facts, "device order").outcome, CheckOutcome::pass);
}

TEST(Doctor, SaysWhoHoldsWhat) {
  HostFacts facts = healthy();
  lease::Holder holder;
  holder.pid = 4711;
  holder.user = "alice";
  facts.holders.emplace("GPU-00000001", holder);
  const Check check = judge(facts, "leases");
  EXPECT_EQ(check.outcome, CheckOutcome::pass);
  EXPECT_TRUE(has(check.finding, "GPU-00000001 by pid 4711 (alice")) << check.finding;
}

TEST(Doctor, NamesEveryTroubleOfOneCheck) {
  HostFacts facts = healthy();
  facts.folders[0].free = gibibytes(9);
  facts.folders[1].not_writable = "Permission denied";
  const Check check = judge(facts, "disk");
  EXPECT_EQ(check.outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(check.finding, "/work has 9") && has(check.finding, "/tmp cannot be written: Permission denied")) << check.finding;
  EXPECT_TRUE(has(check.remedy, "TMPDIR") && has(check.remedy, "--output")) << check.remedy;
}

// Real probes from here on.

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
    "echo \"{\\\"pid\\\": $$, \\\"mask\\\": \\\"$CUDA_VISIBLE_DEVICES\\\", \\\"device_order\\\": \\\"$CUDA_DEVICE_ORDER\\\", "
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

  Check probe(std::string_view name) { return judge(probe_host(sources_, settings_), name); }

  ScratchFolder folder_;
  HostSources sources_;
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
  HostView view;
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
  const InstructionSet trapping{"amx_bf16", [] { return true; }, [] {
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
  const EnvironmentVariable file("MUSTER_NVML_STUB_INVENTORY", sources_.inventory_file->string()), fault("MUSTER_NVML_STUB_FAIL", "init=999");
  sources_.inventory_file.reset();
  sources_.nvml_library = MUSTER_NVML_STUB;
  const Check check = probe("nvml");
  EXPECT_EQ(check.outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(check.finding, "999")) << check.finding;
  EXPECT_TRUE(has(check.remedy, "restart the container")) << check.remedy;
}

TEST_F(DoctorProbe, FailsWhenNvmlReportsALostGpu) {
  const EnvironmentVariable file("MUSTER_NVML_STUB_INVENTORY", sources_.inventory_file->string()), fault("MUSTER_NVML_STUB_FAIL", "lost=1");
  sources_.inventory_file.reset();
  sources_.nvml_library = MUSTER_NVML_STUB;
  const Check check = probe("inventory");
  EXPECT_EQ(check.outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(check.finding, "GPU 1 is sick: lost")) << check.finding;
}

TEST_F(DoctorProbe, FindsHardwareWithoutADriverInTheKernelsFolders) {
  const auto make = [&](const std::filesystem::path& path, std::string_view text) {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    folder_.write(path.string(), text);
  };
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
  make("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\n");
  EXPECT_EQ(probe_driver(folder_.path() / "proc", folder_.path() / "sys", folder_.path() / "dev").module_version, "580.159.03");
}

TEST_F(DoctorProbe, ReadsTheTightestMemoryLimitAroundTheProcess) {
  const auto make = [&](const std::filesystem::path& path, std::string_view text) {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    folder_.write(path.string(), text);
  };
  make("proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:    8388608 kB\n");
  make("proc/self/cgroup", "0::/job/step\n");
  make("sys/fs/cgroup/job/step/memory.max", "max\n");
  make("sys/fs/cgroup/job/step/memory.current", "5\n");
  make("sys/fs/cgroup/job/memory.max", "1073741824\n");
  make("sys/fs/cgroup/job/memory.current", "805306368\n");
  make("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 268435456\n");
  const MemoryFacts facts = probe_memory(folder_.path() / "proc", folder_.path() / "sys", folder_.path() / "dev");
  EXPECT_EQ(facts.available, gibibytes(8));
  EXPECT_EQ(facts.group_available, mebibytes(512));
  EXPECT_EQ(facts.shared_file_size, std::nullopt);
}

TEST_F(DoctorProbe, ReadsTheMemoryLimitOfTheFirstGenerationOfGroups) {
  const auto make = [&](const std::filesystem::path& path, std::string_view text) {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    folder_.write(path.string(), text);
  };
  make("proc/self/cgroup", "11:cpu,cpuacct:/x\n4:memory:/slurm/job_1\n");
  make("sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes", "2147483648\n");
  make("sys/fs/cgroup/memory/slurm/job_1/memory.usage_in_bytes", "1073741824\n");
  make("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  make("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  EXPECT_EQ(probe_memory(folder_.path() / "proc", folder_.path() / "sys", folder_.path() / "dev").group_available, gibibytes(1));
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

TEST(DoctorNetwork, DoesNotWaitForANameServiceBeyondTheLimit) {
  NetworkFacts facts;
  facts.host_name = "127.0.0.1";
  resolve_host_name(facts, milliseconds(0));
  ASSERT_TRUE(facts.resolution_failure.has_value() || !facts.local_addresses.empty());
}

TEST(WorkerReport, IsReadBackAsItWasWritten) {
  const ScratchFolder folder;
  const EnvironmentVariable order("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  HostSources sources;
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
  HostSources sources;
  sources.inventory_file = folder.write("gpus.yaml", two_gpus);
  sources.lease_folder = folder.path() / "leases";
  sources.mask = "5";
  const auto report = parse_worker_report(worker_report(sources));
  ASSERT_TRUE(report) << report.error().what;
  EXPECT_EQ(report->visible, std::nullopt);
  EXPECT_TRUE(has(report->problem.value_or(""), "there is no GPU 5"));
}

}  // namespace
}  // namespace muster::service

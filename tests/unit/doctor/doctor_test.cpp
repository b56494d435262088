// Each check with its failure injected by one changed fact.
#include "doctor/doctor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "doctor_fixture.hpp"

namespace muster::doctor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

HostFacts without_gpus() {
  HostFacts facts = healthy();
  gpu::Snapshot snapshot;
  snapshot.driver = gpu::DriverState::no_driver;
  snapshot.explanation = "no NVIDIA driver library";
  facts.snapshot = snapshot;
  facts.driver = {};
  for (WorkerFacts& worker : facts.workers)
    worker = {std::nullopt, "", {}, WorkerReport{1, "", "PCI_BUS_ID", std::vector<std::string>{}, {}}};
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
  EXPECT_EQ(names, (std::set<std::string>{"driver", "nvml", "inventory", "mask", "device order", "leases", "clock",
                                          "memory", "disk", "ports", "open files", "instruction sets", "sandbox",
                                          "workers", "collectives", "generation"}));
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

void PrintTo(const Injection& injection, std::ostream* out) { *out << injection.what; }

void lose_snapshot(HostFacts& facts) {
  facts.snapshot = Error{Error::Kind::failed, "NVML answers \"Unknown Error (999)\"", "restart the container"};
}

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
    Injection{"LostGpu", [](HostFacts& facts) { facts.snapshot->gpus[1].lost = true; }, "inventory", failure,
              "GPU 1 is sick: lost", "--gpu-reset"},
    Injection{"SickGpu", [](HostFacts& facts) { facts.snapshot->gpus[0].reading.recent_xids = {48}; }, "inventory",
              failure, "GPU 0 is sick: Xid 48", "--gpu-reset"},
    Injection{"MaskThatCudaCuts", [](HostFacts& facts) { facts.mask = "0,7,1"; }, "mask", failure, "there is no GPU 7",
              "unset it"},
    Injection{"MaskWithADuplicate", [](HostFacts& facts) { facts.mask = "1,1"; }, "mask", failure, "named twice",
              "unset it"},
    Injection{"MaskThatHidesAll", [](HostFacts& facts) { facts.mask = ""; }, "mask", warning, "hides all 2 GPUs",
              "unset CUDA_VISIBLE_DEVICES"},
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
    Injection{"LeasesThatCannotBeTaken",
              [](HostFacts& facts) {
                facts.leases = Error{Error::Kind::failed, "/run/lock/muster is a file", ""};
              },
              "leases", failure, "is a file", "MUSTER_LEASE_DIR"},
    Injection{"ClockBeforeTheProgram", [](HostFacts& facts) { facts.clock.now = seconds(1780000000); }, "clock",
              failure, "it is 2026-05-28 20:26:40 UTC, but this program was written at 2026-09-21", "timedatectl"},
    Injection{"ClockBeforeEverything",
              [](HostFacts& facts) {
                facts.clock = {seconds(86400), std::nullopt, milliseconds(0), true};
              },
              "clock", failure, "1970-01-02", "timedatectl"},
    Injection{"ClockThatJumps", [](HostFacts& facts) { facts.clock.jump = milliseconds(-3000); }, "clock", failure,
              "jumped 3 s back", "timedatectl"},
    Injection{"ClockNotSynchronised", [](HostFacts& facts) { facts.clock.synchronised = false; }, "clock", warning,
              "not synchronised", "timedatectl"},
    Injection{"NoSandbox",
              [](HostFacts& facts) {
                facts.sandbox.namespaces = Error{Error::Kind::refused, "not permitted", "sudo sysctl -w this"};
                facts.sandbox.landlock = Error{Error::Kind::refused, "no Landlock", "another kernel"};
              },
              "sandbox", warning, "not permitted; no Landlock", "sudo sysctl -w this"},
    Injection{"LittleMemory", [](HostFacts& facts) { facts.memory.available = mebibytes(1500); }, "memory", warning,
              "1.5 GiB available", "ps aux"},
    Injection{"HardlyAnyMemory", [](HostFacts& facts) { facts.memory.available = mebibytes(511); }, "memory", failure,
              "511 MiB available", "ps aux"},
    Injection{"LittleMemoryInTheGroup", [](HostFacts& facts) { facts.memory.group_available = mebibytes(300); },
              "memory", failure, "300 MiB below the limit", "--memory"},
    Injection{"SmallSharedMemory", [](HostFacts& facts) { facts.memory.shared_file_size = mebibytes(64); }, "memory",
              warning, "/dev/shm holds 64", "--shm-size=8g"},
    Injection{"NoSharedMemory", [](HostFacts& facts) { facts.memory.shared_file_size.reset(); }, "memory", warning,
              "no /dev/shm", "--shm-size=8g"},
    Injection{"LittleDisk", [](HostFacts& facts) { facts.folders[0].free = gibibytes(9); }, "disk", warning,
              "working folder /work has 9", "du -xh /work"},
    Injection{"HardlyAnyDisk", [](HostFacts& facts) { facts.folders[1].free = mebibytes(900); }, "disk", failure,
              "temporary folder /tmp has 900 MiB", "TMPDIR"},
    Injection{"ReadOnlyDisk", [](HostFacts& facts) { facts.folders[0].not_writable = "Read-only file system"; }, "disk",
              failure, "Read-only", "--output"},
    Injection{"LoopbackDown", [](HostFacts& facts) { facts.network.loopback_failure = "cannot connect"; }, "ports",
              failure, "cannot connect", "ip link set lo up"},
    Injection{"NameOfAnotherHost", [](HostFacts& facts) { facts.network.local_addresses.clear(); }, "ports", warning,
              "\"node7\" resolves to 10.0.0.7", "/etc/hosts"},
    Injection{"NameThatDoesNotResolve",
              [](HostFacts& facts) {
                facts.network.host_addresses.clear();
                facts.network.local_addresses.clear();
                facts.network.resolution_failure = "Name or service not known";
              },
              "ports", warning, "does not resolve", "/etc/hosts"},
    Injection{"FewOpenFiles",
              [](HostFacts& facts) {
                facts.open_files = {1024, 1048576};
              },
              "open files", warning, "1024 files", "ulimit -n 65536"},
    Injection{"FewOpenFilesForGood",
              [](HostFacts& facts) {
                facts.open_files = {1024, 1024};
              },
              "open files", warning, "1024 files", "--ulimit nofile"},
    Injection{"TilesThatTrap", [](HostFacts& facts) { trap(facts, "amx_bf16"); }, "instruction sets", warning,
              "amx_bf16 is announced and", "export ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"},
    Injection{"BfloatThatTraps",
              [](HostFacts& facts) {
                trap(facts, "avx512_bf16");
                trap(facts, "amx_tile");
              },
              "instruction sets", warning, "avx512_bf16 is announced and", "export ONEDNN_MAX_CPU_ISA=AVX512_CORE"},
    Injection{"VectorsThatTrap", [](HostFacts& facts) { trap(facts, "avx512f"); }, "instruction sets", warning,
              "avx512f is announced and", "ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2"},
    Injection{"WorkerThatSeesAnotherGpu", [](HostFacts& facts) { facts.workers[1].report->visible = {"GPU-00000000"}; },
              "workers", failure, "the worker for GPU 1 (pid 4712) was given GPU-00000001 and sees GPU-00000000",
              "LD_PRELOAD"},
    Injection{"WorkerThatSeesTooMuch",
              [](HostFacts& facts) {
                facts.workers[0].report->visible = {"GPU-00000000", "GPU-00000001"};
              },
              "workers", failure, "sees GPU-00000000, GPU-00000001", "LD_PRELOAD"},
    Injection{"WorkerWithAnotherMask", [](HostFacts& facts) { facts.workers[0].report->mask.reset(); }, "workers",
              failure, "has it not set", "env | grep CUDA"},
    Injection{"WorkerWithoutDeviceOrder",
              [](HostFacts& facts) { facts.workers[0].report->device_order = "FASTEST_FIRST"; }, "workers", failure,
              "has it \"FASTEST_FIRST\"", "env | grep CUDA"},
    Injection{"WorkerThatIsBlind", [](HostFacts& facts) { facts.workers[0].report->visible.reset(); }, "workers",
              failure, "cannot tell what it sees", "env | grep CUDA"},
    Injection{"WorkerThatFails",
              [](HostFacts& facts) {
                facts.workers[0].report = Error{Error::Kind::failed, "exit code 9", "run it"};
              },
              "workers", failure, "the worker for GPU 0: exit code 9", "run it"},
    Injection{"NoWorker", [](HostFacts& facts) { facts.workers.clear(); }, "workers", failure, "none was started",
              "report this"},
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

INSTANTIATE_TEST_SUITE_P(Facts, DoctorNotices, ::testing::ValuesIn(injections),
                         [](const auto& one) { return std::string(one.param.what); });

TEST(Doctor, IsContentWithLandlockAndSaysWhatItLacks) {
  HostFacts facts = healthy();
  facts.sandbox.namespaces = Error{Error::Kind::refused, "namespaces are not permitted", "a remedy"};
  const Check check = judge(facts, "sandbox");
  EXPECT_EQ(check.outcome, CheckOutcome::pass);
  EXPECT_TRUE(has(check.finding, "Landlock, without /tmp and child processes; namespaces are not permitted"));
}

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

TEST(Doctor, TellsHowLongACollectiveTookAndWarnsWhereNoWorkerIsBuilt) {
  HostFacts facts = healthy();
  EXPECT_TRUE(has(judge(facts, "collectives").finding, "2 CPU ranks over gloo: 7 kinds right"))
      << judge(facts, "collectives").finding;
  EXPECT_TRUE(has(judge(facts, "collectives").finding, "0.5 ms"));
  facts.collectives = {{"", Error{Error::Kind::refused, "muster-worker is not built", "build it"}, true}};
  EXPECT_EQ(judge(facts, "collectives").outcome, CheckOutcome::warning);
  EXPECT_EQ(judge(facts, "collectives").remedy, "build it");
}

TEST(Doctor, FailsWhereRanksDoNotComeTogether) {
  HostFacts facts = healthy();
  facts.collectives.push_back({"2 GPU ranks", Error{Error::Kind::failed, "rank 1 of 2 did not join", "look"}, false});
  EXPECT_EQ(judge(facts, "collectives").outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(judge(facts, "collectives").finding, "2 GPU ranks: rank 1 of 2 did not join"));
}

TEST(Doctor, TellsWhetherRanksAnswerPromptsAllTheSame) {
  HostFacts facts = healthy();
  facts.generation = GenerationReport{2, 64, true};
  EXPECT_EQ(judge(facts, "generation").outcome, CheckOutcome::pass);
  EXPECT_EQ(judge(facts, "generation").finding, "2 CPU ranks: 64 tokens, the same bytes as on one rank");
  facts.generation = GenerationReport{2, 64, false};
  EXPECT_EQ(judge(facts, "generation").outcome, CheckOutcome::failure);
  facts.generation = Error{Error::Kind::failed, "rank 1 died", ""};
  EXPECT_EQ(judge(facts, "generation").outcome, CheckOutcome::failure);
  EXPECT_TRUE(has(judge(facts, "generation").finding, "rank 1 died"));
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
  EXPECT_TRUE(has(check.finding, "/work has 9") && has(check.finding, "/tmp cannot be written: Permission denied"))
      << check.finding;
  EXPECT_TRUE(has(check.remedy, "TMPDIR") && has(check.remedy, "--output")) << check.remedy;
}

}  // namespace
}  // namespace muster::doctor

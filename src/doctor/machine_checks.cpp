// What concerns the machine: clock, memory, disk, network, limits, CPU.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "doctor/checks.hpp"

namespace muster::doctor {
namespace {

std::string date(std::chrono::seconds since_1970) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(since_1970.count())));
}

// The amount, judged by two bounds.
void judge_bytes(Verdict& verdict, const std::string& finding, ByteCount amount, ByteCount warning, ByteCount failure,
                 const std::string& remedy) {
  if (amount < failure)
    verdict.fail(fmt::format("{}, less than {}", finding, to_string(failure)), remedy);
  else if (amount < warning)
    verdict.warn(fmt::format("{}, less than {}", finding, to_string(warning)), remedy);
  else
    verdict.pass(finding);
}

std::string count_or_any(std::uint64_t limit) {
  return limit == RLIM_INFINITY ? "any number of" : std::to_string(limit);
}

std::string describe(const InstructionSetReport& report) {
  switch (report.outcome) {
    case InstructionSetOutcome::works:
      return report.name + " works";
    case InstructionSetOutcome::traps:
      return report.signal ? fmt::format("{} is announced and trapped: signal {} ({})", report.name, *report.signal,
                                         ::strsignal(*report.signal))
                           : fmt::format("{} is announced and hangs", report.name);
    case InstructionSetOutcome::not_permitted:
      return report.name + " is not permitted by the kernel";
    case InstructionSetOutcome::absent:
      return report.name + " absent";
    case InstructionSetOutcome::not_known:
      return report.name + " could not be tried";
  }
  return report.name;
}

// What oneDNN's cap does not cover: PyTorch's own kernels.
std::string pytorch_cap(const std::string& onednn) {
  if (onednn == "SSE41") return " ATEN_CPU_CAPABILITY=default";
  if (onednn == "AVX2") return " ATEN_CPU_CAPABILITY=avx2";
  return "";
}

std::string capped_work(const std::string& onednn) {
  return onednn.starts_with("AVX512") ? "bf16 matrix products" : "matrix products";
}

}  // namespace

Check check_clock(const HostFacts& facts) {
  using namespace std::chrono_literals;
  constexpr const char* set_remedy = "set the clock: sudo timedatectl set-ntp true (in a container: on the host)";
  constexpr std::chrono::seconds earliest(1735689600);  // 2025-01-01: older than every release
  constexpr std::chrono::milliseconds largest_jump(500);
  // A file that was just copied may be a moment ahead of a clock on another machine.
  constexpr std::chrono::seconds tolerance(60);
  const ClockFacts& clock = facts.clock;
  Verdict verdict("clock");
  const std::string now = date(clock.now);
  if (clock.now < earliest)
    verdict.fail(fmt::format("it is {}, before muster existed", now), set_remedy);
  else if (clock.program_written && clock.now + tolerance < *clock.program_written)
    verdict.fail(fmt::format("it is {}, but this program was written at {}", now, date(*clock.program_written)),
                 set_remedy);
  else
    verdict.pass(now);
  if (clock.jump > largest_jump || clock.jump < -largest_jump)
    verdict.fail(
        fmt::format("the system time jumped {} {} during this check", muster::to_string(std::chrono::abs(clock.jump)),
                    clock.jump > 0ms ? "ahead" : "back"),
        "find what sets it (date, ntpdate, a hypervisor) and let one service steer it: sudo timedatectl set-ntp true");
  if (!clock.synchronised)
    verdict.pass("whether it is synchronised is not known");
  else if (*clock.synchronised)
    verdict.pass("synchronised");
  else
    verdict.warn("not synchronised: times of several machines cannot be compared", set_remedy);
  return verdict.take();
}

Check check_memory(const HostFacts& facts) {
  constexpr ByteCount warning = gibibytes(2), failure = mebibytes(512), shared_warning = gibibytes(1);
  const host::MemoryFacts& memory = facts.memory;
  Verdict verdict("memory");
  if (memory.available)
    judge_bytes(verdict, to_string(*memory.available) + " available", *memory.available, warning, failure,
                "end what uses it: ps aux --sort=-rss | head");
  else
    verdict.warn("/proc/meminfo does not say how much memory is available", "mount /proc, or free -m by hand");
  if (memory.group_available)
    judge_bytes(verdict, to_string(*memory.group_available) + " below the limit of this control group",
                *memory.group_available, warning, failure,
                "raise the limit: docker run --memory=..., sbatch --mem=..., systemd MemoryMax=");
  constexpr const char* shared_remedy =
      "in a container: docker run --shm-size=8g (or --ipc=host); elsewhere: sudo mount -o remount,size=8g /dev/shm";
  if (!memory.shared_file_size)
    verdict.warn("there is no /dev/shm, which NCCL and data loaders use", shared_remedy);
  else if (*memory.shared_file_size < shared_warning)
    verdict.warn(
        fmt::format("/dev/shm holds {}, less than {}", to_string(*memory.shared_file_size), to_string(shared_warning)),
        shared_remedy);
  else
    verdict.pass(fmt::format("/dev/shm holds {}", to_string(*memory.shared_file_size)));
  return verdict.take();
}

Check check_disk(const HostFacts& facts) {
  constexpr ByteCount warning = gibibytes(10), failure = gibibytes(1);
  Verdict verdict("disk");
  for (const FolderFacts& folder : facts.folders) {
    const std::string name = fmt::format("{} {}", folder.purpose, folder.path.string());
    const std::string other = folder.purpose == "temporary folder" ? "export TMPDIR=/path with room"
                                                                   : "work in a folder with room (cd, or --output)";
    if (folder.not_writable) verdict.fail(fmt::format("{} cannot be written: {}", name, *folder.not_writable), other);
    if (folder.free)
      judge_bytes(verdict, fmt::format("{} has {} free", name, to_string(*folder.free)), *folder.free, warning, failure,
                  fmt::format("free some: du -xh {} | sort -h | tail; or {}", folder.path.string(), other));
  }
  return verdict.take();
}

Check check_ports(const HostFacts& facts) {
  const NetworkFacts& network = facts.network;
  Verdict verdict("ports");
  if (network.loopback_failure)
    verdict.fail(*network.loopback_failure,
                 "ranks of one machine talk over 127.0.0.1: bring it up (sudo ip link set lo up) and let firewall and "
                 "sandbox pass it");
  else
    verdict.pass("127.0.0.1 carries data");
  const std::string remedy = fmt::format(
      "for runs on several hosts: add this machine's address to /etc/hosts as \"ADDRESS {}\", or give addresses "
      "instead of names",
      network.host_name);
  if (network.resolution_failure)
    verdict.warn(
        fmt::format("this host's name \"{}\" does not resolve: {}", network.host_name, *network.resolution_failure),
        remedy);
  else if (network.local_addresses.empty())
    verdict.warn(
        fmt::format("this host's name \"{}\" resolves to {}, which is not an address of this machine", network.host_name,
                    network.host_addresses.empty() ? "nothing" : join(network.host_addresses, ", ")),
        remedy);
  else
    verdict.pass(fmt::format("{} is {}", network.host_name, join(network.local_addresses, ", ")));
  return verdict.take();
}

Check check_open_files(const HostFacts& facts) {
  constexpr std::uint64_t enough = 4096;
  const OpenFilesFacts& limits = facts.open_files;
  Verdict verdict("open files");
  const std::string finding = fmt::format("a process may open {} files", count_or_any(limits.soft_limit));
  const std::string too_few =
      fmt::format("{}, less than {} ({} on request)", finding, enough, count_or_any(limits.hard_limit));
  if (limits.soft_limit >= enough)
    verdict.pass(finding);
  else if (limits.hard_limit >= enough)
    verdict.warn(too_few, fmt::format("ulimit -n {}", std::min<std::uint64_t>(limits.hard_limit, 65536)));
  else
    verdict.warn(too_few,
                 "docker run --ulimit nofile=65536; elsewhere \"* - nofile 65536\" in /etc/security/limits.conf, then "
                 "log in again");
  return verdict.take();
}

Check check_instruction_sets(const HostFacts& facts) {
  Verdict verdict("instruction sets");
  if (facts.instruction_sets.empty()) verdict.pass("none is looked at on this architecture");
  const auto any_cap = onednn_cap(facts.instruction_sets);
  const auto cap = onednn_cap(facts.instruction_sets, facts.onednn_maximum);
  for (const InstructionSetReport& report : facts.instruction_sets) {
    if (report.outcome != InstructionSetOutcome::traps || !cap)
      verdict.pass(describe(report));
    else
      verdict.warn(describe(report), fmt::format("{} would end in SIGILL; before programs that use oneDNN or "
                                                 "PyTorch: export ONEDNN_MAX_CPU_ISA={}{}",
                                                 capped_work(*cap), *cap, pytorch_cap(*cap)));
  }
  if (any_cap && !cap)
    verdict.pass(fmt::format("ONEDNN_MAX_CPU_ISA={} keeps oneDNN away from what is trapped", *facts.onednn_maximum));
  return verdict.take();
}

Check check_sandbox(const HostFacts& facts) {
  const sandbox::Grants& grants = facts.sandbox;
  Verdict verdict("sandbox");
  if (grants.namespaces)
    verdict.pass("programs that nobody trusts get namespaces of their own");
  else if (grants.landlock)
    verdict.pass(fmt::format("programs that nobody trusts are confined by Landlock, without /tmp and child processes; {}",
                             grants.namespaces.error().what));
  else
    verdict.warn(fmt::format("rewards that run code are refused: {}; {}", grants.namespaces.error().what,
                             grants.landlock.error().what),
                 grants.namespaces.error().remedy);
  return verdict.take();
}

}  // namespace muster::doctor

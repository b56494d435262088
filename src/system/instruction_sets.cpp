#include "system/instruction_sets.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

#include "system/subprocess.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace muster {
namespace {

#if defined(__x86_64__)

constexpr std::uint64_t avx_state = 0x6;      // XCR0: SSE and AVX registers
constexpr std::uint64_t avx512_state = 0xE6;  // and masks, upper halves, upper registers
constexpr std::uint64_t amx_state = 0x60000;  // tile configuration, tile data

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers ask_cpu(unsigned leaf, unsigned subleaf) {
  Registers answer;
  if (__get_cpuid_count(leaf, subleaf, &answer.eax, &answer.ebx, &answer.ecx, &answer.edx) == 0) return {};
  return answer;
}

// Whether the kernel preserves these registers across context switches.
bool kernel_saves(std::uint64_t state) {
  constexpr unsigned osxsave = 1U << 27;
  if ((ask_cpu(1, 0).ecx & osxsave) == 0) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (((std::uint64_t{high} << 32) | low) & state) == state;
}

bool is_set(unsigned word, int bit) { return ((word >> bit) & 1U) != 0; }

bool announces_avx2() { return is_set(ask_cpu(7, 0).ebx, 5) && kernel_saves(avx_state); }
bool announces_avx512f() { return is_set(ask_cpu(7, 0).ebx, 16) && kernel_saves(avx512_state); }
bool announces_avx512_bf16() {
  return is_set(ask_cpu(7, 0).ebx, 16) && ask_cpu(7, 0).eax >= 1 && is_set(ask_cpu(7, 1).eax, 5) &&
         kernel_saves(avx512_state);
}
bool announces_amx_tile() { return is_set(ask_cpu(7, 0).edx, 24) && kernel_saves(amx_state); }
bool announces_amx_bf16() { return announces_amx_tile() && is_set(ask_cpu(7, 0).edx, 22); }

// Assembly, because the rest of the program must stay free of these instructions.
ProbeAnswer try_avx2() {
  asm volatile("vpaddd %%ymm0, %%ymm0, %%ymm0\n\tvzeroupper" ::: "xmm0");
  return ProbeAnswer::done;
}

ProbeAnswer try_avx512f() {
  asm volatile("vpaddd %%zmm0, %%zmm0, %%zmm0\n\tvzeroupper" ::: "xmm0");
  return ProbeAnswer::done;
}

ProbeAnswer try_avx512_bf16() {
  asm volatile("vpxord %%zmm0, %%zmm0, %%zmm0\n\tvdpbf16ps %%zmm0, %%zmm0, %%zmm0\n\tvzeroupper" ::: "xmm0");
  return ProbeAnswer::done;
}

// The layout that ldtilecfg reads.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{64, 64, 64};
  std::array<std::uint8_t, 16> rows{16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

// Tile registers are large: the kernel gives them to processes that request them.
bool may_use_tiles() {
  constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long tile_data = 18;
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

ProbeAnswer try_amx_tile() {
  if (!may_use_tiles()) return ProbeAnswer::not_permitted;
  const TileConfiguration configuration;
  asm volatile("ldtilecfg %0\n\ttilezero %%tmm0\n\ttilerelease" ::"m"(configuration));
  return ProbeAnswer::done;
}

ProbeAnswer try_amx_bf16() {
  if (!may_use_tiles()) return ProbeAnswer::not_permitted;
  const TileConfiguration configuration;
  asm volatile(
      "ldtilecfg %0\n\ttilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\t"
      "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\ttilerelease" ::"m"(configuration));
  return ProbeAnswer::done;
}

constexpr std::array known{
    InstructionSet{"avx2", announces_avx2, try_avx2},
    InstructionSet{"avx512f", announces_avx512f, try_avx512f},
    InstructionSet{"avx512_bf16", announces_avx512_bf16, try_avx512_bf16},
    InstructionSet{"amx_tile", announces_amx_tile, try_amx_tile},
    InstructionSet{"amx_bf16", announces_amx_bf16, try_amx_bf16},
};

#else

constexpr std::array<InstructionSet, 0> known{};

#endif

// Values of ONEDNN_MAX_CPU_ISA, each allowing what those before it allow.
constexpr std::array<std::string_view, 11> onednn_values{"SSE41",
                                                         "AVX",
                                                         "AVX2",
                                                         "AVX2_VNNI",
                                                         "AVX2_VNNI_2",
                                                         "AVX512_CORE",
                                                         "AVX512_CORE_VNNI",
                                                         "AVX512_CORE_BF16",
                                                         "AVX512_CORE_FP16",
                                                         "AVX512_CORE_AMX",
                                                         "AVX512_CORE_AMX_FP16"};

bool allows_at_most(std::string_view value, std::string_view cap) {
  std::string upper(value);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const auto place = std::ranges::find(onednn_values, upper);
  return place != onednn_values.end() && place <= std::ranges::find(onednn_values, cap);
}

// The lowest set that traps decides.
struct Cap {
  std::string_view trapping;
  std::string_view value;
};
constexpr std::array caps{Cap{"avx2", "SSE41"}, Cap{"avx512f", "AVX2"}, Cap{"avx512_bf16", "AVX512_CORE"},
                          Cap{"amx_tile", "AVX512_CORE_BF16"}, Cap{"amx_bf16", "AVX512_CORE_BF16"}};

}  // namespace

std::span<const InstructionSet> known_instruction_sets() { return known; }

std::vector<InstructionSetReport> try_instruction_sets(std::span<const InstructionSet> sets,
                                                       std::chrono::milliseconds limit) {
  std::vector<InstructionSetReport> reports;
  for (const InstructionSet& set : sets) {
    InstructionSetReport& report = reports.emplace_back();
    report.name = set.name;
    if (!set.announced()) continue;
    const auto end = run_in_child([&] { return static_cast<int>(set.probe()); }, limit);
    if (!end) {
      report.outcome = InstructionSetOutcome::not_known;
    } else if (end->timed_out || end->signal) {
      report.outcome = InstructionSetOutcome::traps;
      if (!end->timed_out) report.signal = end->signal;
    } else if (!end->exit_code) {
      report.outcome = InstructionSetOutcome::not_known;
    } else {
      report.outcome = *end->exit_code == static_cast<int>(ProbeAnswer::not_permitted)
                           ? InstructionSetOutcome::not_permitted
                           : InstructionSetOutcome::works;
    }
  }
  return reports;
}

std::optional<std::string> onednn_cap(std::span<const InstructionSetReport> reports,
                                      std::optional<std::string_view> current) {
  for (const Cap& cap : caps) {
    const bool traps = std::ranges::any_of(reports, [&](const InstructionSetReport& report) {
      return report.name == cap.trapping && report.outcome == InstructionSetOutcome::traps;
    });
    if (!traps) continue;
    if (current && allows_at_most(*current, cap.value)) return std::nullopt;
    return std::string(cap.value);
  }
  return std::nullopt;
}

}  // namespace muster

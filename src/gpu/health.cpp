#include "gpu/health.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/text.hpp"

namespace muster::gpu {
namespace {

// Errors that a faulty program causes: the GPU itself is fine for the next one.
constexpr std::array application_xids{13, 31, 43, 45, 68, 94, 109};

struct XidMeaning {
  int code;
  std::string_view meaning;
};

constexpr std::array xid_meanings{
    XidMeaning{48, "an uncorrectable memory error"},
    XidMeaning{61, "a micro-controller breakpoint"},
    XidMeaning{62, "a micro-controller halted"},
    XidMeaning{63, "memory rows were remapped or pages retired"},
    XidMeaning{64, "memory rows could not be remapped or pages retired"},
    XidMeaning{74, "an NVLink error"},
    XidMeaning{79, "the GPU fell off the bus"},
    XidMeaning{92, "many corrected memory errors"},
    XidMeaning{95, "an uncontained memory error"},
    XidMeaning{119, "the GPU system processor does not answer"},
    XidMeaning{120, "the GPU system processor reports an error"},
    XidMeaning{121, "an error on the link to the CPU"},
    XidMeaning{140, "an unrecovered memory error"},
    XidMeaning{143, "the GPU could not be initialised"},
    XidMeaning{154, "the driver asks for a recovery action (a reset or a reboot)"},
};

std::string describe_xid(int code) {
  const auto known = std::ranges::find(xid_meanings, code, &XidMeaning::code);
  return fmt::format("Xid {} in the kernel log: {}", code,
                     known != xid_meanings.end() ? known->meaning : "not an error that an application causes");
}

// One finding per code, in the order they came.
void add_xids(const std::vector<int>& codes, std::vector<std::string>& findings) {
  std::vector<int> told;
  for (const int code : codes) {
    if (std::ranges::count(application_xids, code) > 0 || std::ranges::count(told, code) > 0) continue;
    told.push_back(code);
    findings.push_back(describe_xid(code));
  }
}

}  // namespace

std::optional<std::string> sickness(const Gpu& gpu) {
  std::vector<std::string> findings;
  const GpuReading& reading = gpu.reading;
  if (gpu.lost) findings.emplace_back("lost: the driver cannot reach it");
  if (reading.row_remap_failed.value_or(false)) findings.emplace_back("row remap failed");
  if (reading.row_remap_pending.value_or(false))
    findings.emplace_back("row remap pending: it takes effect at the next reset");
  if (const auto errors = reading.ecc_uncorrected.value_or(0); errors > 0)
    findings.push_back(
        fmt::format("{} uncorrected memory {} since the driver was loaded", errors, errors == 1 ? "error" : "errors"));
  add_xids(reading.recent_xids, findings);
  const std::string found = join(findings, "; ");
  if (!gpu.declared_unhealthy) return found.empty() ? std::nullopt : std::optional(found);
  // A file that another muster wrote declares what its own facts already say.
  return gpu.declared_unhealthy->ends_with(found) ? gpu.declared_unhealthy : *gpu.declared_unhealthy + "; " + found;
}

}  // namespace muster::gpu

// The errors that the NVIDIA kernel module wrote to the kernel log, by GPU.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "system/file_descriptor.hpp"
#include "gpu/pci_address.hpp"

namespace muster::gpu {

struct XidRecord {
  PciAddress address;
  int code = 0;
  bool operator==(const XidRecord&) const = default;
};

// "NVRM: Xid (PCI:0000:3b:00): 79, ..." as /dev/kmsg ("6,12,345,-;NVRM: ...") or dmesg ("[ 1.2] NVRM: ...") has it.
std::optional<XidRecord> parse_xid_line(std::string_view line);

// Remembers where it stopped, so that looking again costs only what was logged since.
class XidLog {
 public:
  explicit XidLog(std::filesystem::path kernel_log);

  // All codes for this GPU so far, oldest first. A log that is missing or closed to us has none.
  std::vector<int> codes_for(PciAddress address) const;

  // Reads what is new.
  void refresh();

 private:
  void take(std::string_view text);

  std::filesystem::path path_;
  FileDescriptor log_;
  std::string unfinished_;  // a line whose end is not written yet
  std::map<PciAddress, std::vector<int>> codes_;
};

}  // namespace muster::gpu

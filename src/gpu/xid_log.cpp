#include "gpu/xid_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/text.hpp"

namespace muster::gpu {
namespace {

// The message without what kmsg ("6,12,345,-;") or dmesg ("[    1.234567] ") writes before it. Only a message that
// begins with the driver's words is the driver's: other messages may quote text that users chose.
std::string_view without_prefix(std::string_view line) {
  if (line.starts_with('[')) {
    const auto end = line.find("] ");
    return end == std::string_view::npos ? line : line.substr(end + 2);
  }
  const auto end = line.find_first_not_of("0123456789,-c");
  return end != std::string_view::npos && line[end] == ';' ? line.substr(end + 1) : line;
}

}  // namespace

std::optional<XidRecord> parse_xid_line(std::string_view line) {
  constexpr std::string_view start = "NVRM: Xid (";
  std::string_view message = without_prefix(line);
  if (!message.starts_with(start)) return std::nullopt;
  message.remove_prefix(start.size());
  if (message.starts_with("PCI:")) message.remove_prefix(4);
  const auto close = message.find("): ");
  if (close == std::string_view::npos) return std::nullopt;
  const auto address = parse_pci_address(message.substr(0, close));
  message.remove_prefix(close + 3);
  const auto code = parse_number<int>(trim(message.substr(0, message.find(','))));
  if (!address || !code || *code <= 0) return std::nullopt;
  return XidRecord{*address, *code};
}

XidLog::XidLog(std::filesystem::path kernel_log) : path_(std::move(kernel_log)) {}

std::vector<int> XidLog::codes_for(PciAddress address) const {
  const auto found = codes_.find(address);
  return found == codes_.end() ? std::vector<int>{} : found->second;
}

// kmsg gives one record for each read: EAGAIN after the last one, EPIPE when records were overwritten before they could
// be read (the next read goes on with the oldest that is left).
void XidLog::refresh() {
  if (!log_) log_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!log_) return;
  std::array<char, 16384> block{};  // longer than any kmsg record; a shorter one would fail with EINVAL
  while (true) {
    const ssize_t got = ::read(log_.number(), block.data(), block.size());
    if (got > 0)
      take({block.data(), static_cast<std::size_t>(got)});
    else if (got == 0 || (errno != EPIPE && errno != EINTR))
      return;
  }
}

void XidLog::take(std::string_view text) {
  unfinished_ += text;
  std::size_t start = 0;
  for (auto end = unfinished_.find('\n'); end != std::string::npos; end = unfinished_.find('\n', start)) {
    if (const auto record = parse_xid_line(std::string_view(unfinished_).substr(start, end - start)))
      codes_[record->address].push_back(record->code);
    start = end + 1;
  }
  unfinished_.erase(0, start);
}

}  // namespace muster::gpu

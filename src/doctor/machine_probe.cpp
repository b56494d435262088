#include "doctor/machine_probe.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/text.hpp"
#include "system/file_descriptor.hpp"
#include "system/files.hpp"

namespace muster::doctor {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

std::string read_line(const fs::path& file) {
  const auto text = read_file(file);
  return text ? std::string(trim(*text)) : "";
}

// "..Kernel Module  580.159.03  Release Build..": the first word of digits and dots.
std::optional<std::string> module_version(const fs::path& proc) {
  const auto text = read_file(proc / "driver/nvidia/version");
  if (!text) return std::nullopt;
  for (const std::string& word : split(text->substr(0, text->find('\n')), ' '))
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return "of unknown version";
}

std::optional<struct statvfs> file_system_of(const fs::path& path) {
  struct statvfs facts = {};
  if (::statvfs(path.c_str(), &facts) != 0) return std::nullopt;
  return facts;
}

ByteCount blocks(fsblkcnt_t count, unsigned long size) {
  return {static_cast<std::int64_t>(count) * static_cast<std::int64_t>(size)};
}

std::optional<std::string> why_not_writable(const fs::path& folder) {
  FileDescriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {  // not every file system has those
    std::string name = (folder / "muster-doctor-XXXXXX").string();
    file = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC));
    if (file) ::unlink(name.c_str());
  }
  if (!file) return system_reason();
  if (::write(file.number(), "x", 1) != 1) return system_reason();
  return std::nullopt;
}

}  // namespace

DriverFacts probe_driver(const fs::path& proc, const fs::path& sys, const fs::path& dev) {
  DriverFacts facts;
  facts.module_version = module_version(proc);
  for (const fs::path& entry : entries_of(dev)) {
    const std::string name = entry.filename();
    const std::string_view digits = std::string_view(name).substr(std::min<std::size_t>(6, name.size()));
    const bool numbered =
        !digits.empty() && std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c); });
    if (name.starts_with("nvidia") && numbered) facts.device_files.push_back(entry.string());
  }
  for (const fs::path& entry : entries_of(sys / "bus/pci/devices"))
    if (read_line(entry / "vendor") == "0x10de" && read_line(entry / "class").starts_with("0x03"))
      facts.pci_devices.push_back(entry.filename().string());
  return facts;
}

FolderFacts probe_folder(std::string purpose, const fs::path& path) {
  FolderFacts facts{std::move(purpose), path, std::nullopt, why_not_writable(path)};
  if (const auto system = file_system_of(path)) facts.free = blocks(system->f_bavail, system->f_frsize);
  return facts;
}

OpenFilesFacts probe_open_files() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return {limit.rlim_cur, limit.rlim_max};
}

ClockProbe::ClockProbe() : system_(std::chrono::system_clock::now()), steady_(std::chrono::steady_clock::now()) {}

ClockFacts ClockProbe::finish(const fs::path& proc) const {
  using namespace std::chrono;
  ClockFacts facts;
  const auto system_now = system_clock::now();
  facts.jump = duration_cast<milliseconds>((system_now - system_) - (steady_clock::now() - steady_));
  facts.now = duration_cast<seconds>(system_now.time_since_epoch());
  struct stat program = {};
  if (::stat((proc / "self/exe").c_str(), &program) == 0) facts.program_written = seconds(program.st_mtim.tv_sec);
  timex state = {};
  if (const int answer = ::adjtimex(&state); answer >= 0)
    facts.synchronised = answer != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  return facts;
}

}  // namespace muster::doctor

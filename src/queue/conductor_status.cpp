#include "queue/conductor_status.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json/member_reader.hpp"
#include "system/file_lock.hpp"
#include "system/files.hpp"
#include "base/one_line.hpp"
#include "base/text.hpp"

namespace muster::queue {
namespace {

constexpr std::size_t room = 2048, longest_reason = 600;

bool is_stopped(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text) return false;
  const auto name_end = text->rfind(')');
  return name_end != std::string::npos && name_end + 2 < text->size() && (*text)[name_end + 2] == 'T';
}

}  // namespace

std::string to_text(const ConductorStatus& status) {
  nlohmann::ordered_json out{{"process", to_string(status.process)}};
  if (!status.waits_for.empty()) out["waits_for"] = on_one_line(status.waits_for, longest_reason);
  return out.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<ConductorStatus> parse_conductor_status(std::string_view text) {
  const auto object = nlohmann::json::parse(trim(text), nullptr, false);
  const auto process = parse_identity(find_text(object, "process").value_or(""));
  if (!process) return std::nullopt;
  return ConductorStatus{*process, find_text(object, "waits_for").value_or("")};
}

// Always the whole space, in one write: the previous text is gone, and a reader sees the old text or the new one.
void write_status(const FileDescriptor& lock, const ConductorStatus& status) {
  std::string text = to_text(status);
  text.resize(std::max(text.size() + 1, room), ' ');
  text.back() = '\n';
  static_cast<void>(!::pwrite(lock.number(), text.data(), text.size(), 0));
}

std::optional<std::string> conductor_trouble(const StateFolder& folder) {
  if (!is_locked_file(folder.conductor_lock())) return std::nullopt;
  const auto text = read_file(folder.conductor_lock());
  const auto status = text ? parse_conductor_status(*text) : std::nullopt;
  if (!status) return std::nullopt;
  const pid_t pid = status->process.pid;
  const auto seen = read_process_status(pid);
  if (!seen || seen->identity != status->process) return std::nullopt;  // another one has just taken over
  if (is_stopped(pid))
    return fmt::format("the queue's conductor, process {0}, is stopped, and nothing is started: kill -CONT {0}", pid);
  if (status->waits_for.empty()) return std::nullopt;
  return fmt::format("the queue's conductor waits, and starts nothing until this works: {}", status->waits_for);
}

}  // namespace muster::queue

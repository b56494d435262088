#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <stdexcept>

#include "base/text.hpp"
#include "launch/failure.hpp"
#include "launch/keeper/signal_name.hpp"

namespace muster::launch {
namespace {

// "2023-11-14_22:13:20", in local time.
std::string block_time(const WorkerFailure& failure) {
  std::time_t seconds = std::chrono::system_clock::to_time_t(failure.time);
  if (failure.error_file && failure.error_file->timestamp) seconds = *failure.error_file->timestamp;
  std::tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) return "<N/A>";
  return fmt::format("{:%Y-%m-%d_%H:%M:%S}", parts);
}

// As torchrun chooses it: the traceback, else the message, else what the end itself tells.
std::string block_traceback(const WorkerFailure& failure) {
  if (failure.not_started) return *failure.not_started;
  if (failure.error_file) {
    const std::string& text = failure.error_file->traceback.value_or(failure.error_file->message);
    if (!text.empty()) return join(split(text, '\n'), "\n  ");
  }
  if (failure.end.signal)
    return fmt::format("Signal {} ({}) received by PID {}", *failure.end.signal,
                       signal_name(*failure.end.signal).value_or("<N/A>"), failure.pid);
  return "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html";
}

std::string block_entry(std::size_t index, const WorkerFailure& failure) {
  const auto name = failure.end.signal ? signal_name(*failure.end.signal) : std::nullopt;
  return fmt::format(
      "[{}]:\n"
      "  time      : {}\n"
      "  host      : {}\n"
      "  rank      : {} (local_rank: {})\n"
      "  exitcode  : {} (pid: {}) {}\n"
      "  error_file: {}\n"
      "  traceback : {}",
      index, block_time(failure), failure.host, failure.rank, failure.local_rank, torch_exit_code(failure.end),
      failure.pid, name ? fmt::format(" ({})", *name) : "",
      failure.error_file ? failure.error_file->path.string() : "<N/A>", block_traceback(failure));
}

// In characters, not bytes.
std::size_t widest_line(std::string_view text) {
  const auto begins_character = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; };
  std::size_t widest = 0;
  for (const std::string& line : split(text, '\n'))
    widest = std::max(widest, static_cast<std::size_t>(std::ranges::count_if(line, begins_character)));
  return widest;
}

// The block torchrun ends with, character by character. Other programs look for it.
std::string block(const FailureReport& report) {
  constexpr std::size_t widest_block = 60;
  const std::string title = report.entry + " FAILED";
  std::vector<std::string> entries;
  std::size_t width = widest_line(title);
  for (std::size_t index = 0; index < report.failures.size(); ++index) {
    entries.push_back(block_entry(index, report.failures[index]));
    width = std::max(width, widest_line(entries.back()));
  }
  width = std::min(width, widest_block);
  const std::string border(width, '=');
  const std::string section(width, '-');
  const std::string others =
      entries.size() > 1 ? join(std::span(entries).subspan(1), "\n") : std::string("  <NO_OTHER_FAILURES>");
  return fmt::format("{0}\n{1}\n{2}\nFailures:\n{3}\n{2}\nRoot Cause (first observed failure):\n{4}\n{0}\n", border,
                     title, section, others, entries.front());
}

}  // namespace

std::string to_text(const FailureReport& report) {
  if (report.failures.empty()) throw std::logic_error("a failure report without a failure");
  const WorkerFailure& cause = report.failures.front();
  std::string text = cause.explanation + "\n";
  const bool in_block = cause.error_file && cause.error_file->traceback;
  if (!in_block && !cause.last_lines.empty())
    text += fmt::format("the last lines of its standard error:\n  {}\n", join(cause.last_lines, "\n  "));
  if (report.log_folder) text += fmt::format("logs: {}\n", report.log_folder->string());
  return text + "\n" + block(report);
}

}  // namespace muster::launch

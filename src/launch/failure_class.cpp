#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"
#include "launch/failure.hpp"
#include "launch/last_exception.hpp"
#include "launch/keeper/signal_name.hpp"

namespace muster::launch {
namespace {

// Words that give a failure away. Both have to be there where there are two; the first row that fits counts, so that
// NCCL's "out of memory" is the memory's fault and not the network's.
struct FailurePattern {
  FailureKind kind;
  std::string_view word;
  std::string_view with = "";
};
constexpr std::array clues{
    FailurePattern{FailureKind::gpu_memory, "OutOfMemoryError"},
    FailurePattern{FailureKind::gpu_memory, "CUDA out of memory"},
    FailurePattern{FailureKind::gpu_memory, "HIP out of memory"},
    FailurePattern{FailureKind::gpu_memory, "CUDA error: out of memory"},
    FailurePattern{FailureKind::gpu_memory, "CUDA_ERROR_OUT_OF_MEMORY"},
    FailurePattern{FailureKind::gpu_memory, "cudaErrorMemoryAllocation"},
    FailurePattern{FailureKind::gpu_memory, "CUBLAS_STATUS_ALLOC_FAILED"},
    FailurePattern{FailureKind::gpu_memory, "CUDNN_STATUS_ALLOC_FAILED"},
    FailurePattern{FailureKind::gpu_memory, "Cuda failure", "out of memory"},
    FailurePattern{FailureKind::host_memory, "MemoryError"},
    FailurePattern{FailureKind::host_memory, "DefaultCPUAllocator", "allocate memory"},
    FailurePattern{FailureKind::host_memory, "Cannot allocate memory"},
    FailurePattern{FailureKind::host_memory, "std::bad_alloc"},
    FailurePattern{FailureKind::import_error, "ModuleNotFoundError"},
    FailurePattern{FailureKind::import_error, "ImportError"},
    FailurePattern{FailureKind::communication, "DistBackendError"},
    FailurePattern{FailureKind::communication, "DistNetworkError"},
    FailurePattern{FailureKind::communication, "DistStoreError"},
    FailurePattern{FailureKind::communication, "NCCL error"},
    FailurePattern{FailureKind::communication, "NCCL Error"},
    FailurePattern{FailureKind::communication, "ncclSystemError"},
    FailurePattern{FailureKind::communication, "ncclRemoteError"},
    FailurePattern{FailureKind::communication, "ncclInternalError"},
    FailurePattern{FailureKind::communication, "Watchdog caught collective operation timeout"},
    FailurePattern{FailureKind::communication, "Socket Timeout"},
    FailurePattern{FailureKind::communication, "Connection closed by peer", "gloo"},
    FailurePattern{FailureKind::communication, "Connection reset by peer", "gloo"},
    FailurePattern{FailureKind::communication, "Connection refused", "gloo"},
    FailurePattern{FailureKind::communication, "Broken pipe", "gloo"},
    FailurePattern{FailureKind::communication, "Timed out waiting", "gloo"},
    FailurePattern{FailureKind::communication, "Connection closed by peer", "Store"},
    FailurePattern{FailureKind::communication, "Connection reset by peer", "Store"},
    FailurePattern{FailureKind::communication, "Connection reset by peer", "NCCL"},
};

// What a signal mostly means, and what to look at.
struct SignalMeaning {
  int signal;
  std::string_view meaning;
};
constexpr std::array meanings{
    SignalMeaning{SIGSEGV, "native code used memory that is not its own"},
    SignalMeaning{SIGBUS, "a page of memory could not be had; shared memory may be full: df -h /dev/shm"},
    SignalMeaning{SIGILL, "it met an instruction that this CPU cannot run; muster doctor tells which sets work"},
    SignalMeaning{SIGFPE, "native code divided by zero"},
    SignalMeaning{SIGABRT, "native code gave up"},
    SignalMeaning{SIGKILL, "someone killed it; no kill for want of memory was seen"},
    SignalMeaning{SIGTERM, "it was asked to end"},
    SignalMeaning{SIGINT, "it was interrupted"},
    SignalMeaning{SIGHUP, "its terminal or session is gone"},
    SignalMeaning{SIGPIPE, "it wrote where nobody reads"},
    SignalMeaning{SIGXCPU, "its limit of CPU time is reached: ulimit -t"},
    SignalMeaning{SIGXFSZ, "its limit of file size is reached: ulimit -f"},
    SignalMeaning{SIGSYS, "it made a system call that is not allowed here"},
};

std::string name_of(int signal) { return signal_name(signal).value_or(fmt::format("signal {}", signal)); }

// What the rank itself said of its end: its error file, else its last exception, else its last words.
struct FailureEvidence {
  std::string text;
  bool certain = true;  // an exception; last words may be anything
};

FailureEvidence testimony_of(const WorkerFailure& failure) {
  constexpr std::size_t last_words = 5;
  if (failure.error_file) return {failure.error_file->message};
  if (std::string exception = last_exception(failure.last_lines); !exception.empty()) return {std::move(exception)};
  const auto& lines = failure.last_lines;
  const std::size_t skipped = lines.size() - std::min(lines.size(), last_words);
  return {join(std::span(lines).subspan(skipped), "\n"), false};
}

std::optional<FailureKind> kind_by_words(std::string_view text) {
  const auto fits = [&](const FailurePattern& clue) {
    return text.find(clue.word) != std::string_view::npos && text.find(clue.with) != std::string_view::npos;
  };
  const auto* found = std::ranges::find_if(clues, fits);
  return found == clues.end() ? std::nullopt : std::optional(found->kind);
}

// A rank may be killed through a shell or a wrapper, or lose a child of its own.
bool was_killed_for_memory(const WorkerFailure& failure, std::string_view said) {
  if (!failure.out_of_memory_kill) return false;
  return failure.end.signal == SIGKILL || failure.end.exit_code == 128 + SIGKILL ||
         said.find("killed by signal: Killed") != std::string_view::npos;
}

FailureKind kind_of(const WorkerFailure& failure, const FailureEvidence& said) {
  if (failure.not_started) return FailureKind::not_started;
  if (was_killed_for_memory(failure, said.text)) return FailureKind::host_memory;
  // What ends a process by another signal than SIGABRT gives it no time to say why.
  const bool could_speak = failure.error_file || failure.end.signal.value_or(SIGABRT) == SIGABRT;
  if (could_speak)
    if (const auto kind = kind_by_words(said.text)) return *kind;
  return failure.end.signal ? FailureKind::signal : FailureKind::exit_code;
}

// The first line, or the last of mere words; not longer than a reader takes in.
std::string gist(const FailureEvidence& said) {
  constexpr std::size_t most = 300;
  const std::string_view text = trim(said.text);
  std::string_view line = said.certain ? text.substr(0, text.find('\n')) : text.substr(text.rfind('\n') + 1);
  if (line.size() <= most) return std::string(line);
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;  // not within a character
  return std::string(line.substr(0, end)) + "…";
}

std::string explain_signal(int number, const std::string& gist_of_file) {
  const auto* found = std::ranges::find(meanings, number, &SignalMeaning::signal);
  std::string text = fmt::format("was ended by {}", name_of(number));
  if (!gist_of_file.empty()) return text + " after " + gist_of_file;
  return found == meanings.end() ? text : fmt::format("{}: {}", text, found->meaning);
}

std::string explain_exit(const ProcessEnd& end, const std::string& gist) {
  if (!end.exit_code) return "ended, how is not known";
  std::string text = fmt::format("ended with exit code {}", *end.exit_code);
  if (*end.exit_code > 128 && signal_name(*end.exit_code - 128))
    text += fmt::format(" (a shell's word for {})", name_of(*end.exit_code - 128));
  return gist.empty() ? text : fmt::format("{}: {}", text, gist);
}

std::string explain(const WorkerFailure& failure, const std::string& gist) {
  switch (failure.kind) {
    case FailureKind::not_started:
      return fmt::format("could not be started: {}", *failure.not_started);
    case FailureKind::host_memory:
      if (!failure.out_of_memory_kill) return fmt::format("could get no more memory of the host: {}", gist);
      return "was killed because the memory of the host or of its group was full; smaller batches and fewer loader "
             "processes need less";
    case FailureKind::gpu_memory:
      return fmt::format("ran out of GPU memory: {}", gist);
    case FailureKind::communication:
      return fmt::format("lost the other ranks, mostly because one of them ended first: {}", gist);
    case FailureKind::import_error:
      return fmt::format("could not import a Python module; install it for the Python that runs the ranks: {}", gist);
    case FailureKind::signal:
      return explain_signal(failure.end.signal.value_or(0), failure.error_file ? gist : std::string());
    case FailureKind::exit_code:
      break;
  }
  return explain_exit(failure.end, gist);
}

}  // namespace

void classify(WorkerFailure& failure) {
  const FailureEvidence said = testimony_of(failure);
  failure.kind = kind_of(failure, said);
  failure.explanation = fmt::format("rank {} {}", failure.rank, explain(failure, gist(said)));
}

int torch_exit_code(const ProcessEnd& end) {
  if (end.signal) return -*end.signal;
  return end.exit_code.value_or(1);
}

}  // namespace muster::launch

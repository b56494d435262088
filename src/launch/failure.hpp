// Why a rank failed, as far as it can be known from outside, in words and as JSON.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "system/subprocess.hpp"

namespace muster::launch {

enum class FailureKind {
  exit_code,      // it ended with a code of its own, nothing more is known
  signal,         // a signal ended it
  host_memory,    // the host's or the group's memory was full: the kernel killed it, or refused it more
  gpu_memory,     // CUDA out of memory
  communication,  // NCCL, Gloo or the store: mostly a consequence of another rank's end
  import_error,   // a Python module is missing
  not_started,    // the program could not be run at all
};
std::string_view to_word(FailureKind kind);

// What torch's @record writes into TORCHELASTIC_ERROR_FILE.
struct ErrorFile {
  std::filesystem::path path;
  std::string json;                      // as it was
  std::string message;                   // "RuntimeError: …"
  std::optional<std::string> traceback;  // py_callstack
  std::optional<std::int64_t> timestamp;
};
// Absent when there is none or it is empty; foreign content is kept as the message.
std::optional<ErrorFile> read_error_file(const std::filesystem::path& path);
ErrorFile parse_error_file(std::filesystem::path path, std::string text);

// What the launcher's own parent reads: the root cause's file with "errorCode" in its message, as torchrun writes it.
Result<void> write_parent_error_file(const std::filesystem::path& target, const ErrorFile& cause, int exit_code);

struct WorkerFailure {
  std::string host;
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  ProcessEnd end;
  std::chrono::system_clock::time_point time;
  std::optional<ErrorFile> error_file;
  std::vector<std::string> last_lines;  // of its standard error
  std::optional<std::string> not_started;
  bool asked = false;               // it still lived when the launcher told it to end; known on its own host only
  bool out_of_memory_kill = false;  // the kernel's count of such kills rose while it ended
  FailureKind kind = FailureKind::exit_code;
  std::string explanation;  // one sentence: "rank 3 ran out of GPU memory: CUDA out of memory. Tried …"
};

// Sets kind and explanation from the rest.
void classify(WorkerFailure& failure);

// As torchrun counts: the exit code, or minus the signal.
int torch_exit_code(const ProcessEnd& end);

// The failure of the whole run: the first one is the cause; in the order in which the kernel saw the ranks end.
struct FailureReport {
  std::string entry;                    // "train.py"
  std::vector<WorkerFailure> failures;  // the first is the root cause
  std::optional<std::filesystem::path> log_folder;
  bool interrupted = false;  // a signal to the launcher ended the run; these had failed before, or by it
};
// torchrun's block, with one sentence of explanation and the last lines of the guilty rank's errors in front.
std::string to_text(const FailureReport& report);
std::string to_json(const FailureReport& report);
// One failure as JSON and back: how agents tell each other.
std::string to_json(const WorkerFailure& failure);
Result<WorkerFailure> failure_from_json(std::string_view json);

}  // namespace muster::launch

// runs/<name>-<time>/: everything that is kept about one run, in documented text files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "store/run_lock.hpp"
#include "store/run_record.hpp"
#include "store/run_result.hpp"
#include "store/timestamp.hpp"

namespace muster::store {

struct HeldRun;

// A file that a run's folder has from its first moment on.
struct FirstFile {
  std::string_view name;
  std::string_view text;
};

class RunFolder {
 public:
  // A new folder output/<name>-<time>, with "-2" appended if that is taken, already locked and with these files when
  // it appears. The folders above it are created if they are missing.
  static Result<HeldRun> create(const std::filesystem::path& output, std::string_view name, Moment now,
                                std::span<const FirstFile> files = {});
  // An existing folder, for reading.
  static Result<RunFolder> open(const std::filesystem::path& path);
  // To resume it: locked. Refused while another process works on it. What was read of the run before the lock was taken
  // may have changed since.
  Result<HeldRun> hold(std::chrono::milliseconds patience = std::chrono::seconds(10)) const;

  const std::filesystem::path& path() const { return path_; }
  std::string name() const { return path_.filename().string(); }  // "arithmetic-20260801-140309"
  std::filesystem::path spec() const { return path_ / "spec.yaml"; }
  std::filesystem::path plan() const { return path_ / "plan.json"; }
  std::filesystem::path events() const { return path_ / "events.jsonl"; }
  std::filesystem::path metrics() const { return path_ / "metrics.csv"; }
  std::filesystem::path logs() const { return path_ / "logs"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path model() const { return path_ / "model"; }
  std::filesystem::path loss_plot() const { return path_ / "loss.svg"; }
  std::filesystem::path result() const { return path_ / "result.json"; }

  Result<void> write_spec(std::string_view yaml) const;
  Result<void> write_plan(std::string_view json) const;
  Result<void> write_result(const RunResult& result) const;
  // Nothing if the run has not ended, or was killed.
  Result<std::optional<RunResult>> read_result() const;

  // For a resumed run: it has not ended yet.
  Result<void> remove_result() const;
  // Records in run.json where and with what the run is started.
  Result<void> write_start(const RunStart& start) const;

  // For how long commands worked on a run that has no result. now: it is running. Otherwise it was killed, and its last
  // event says when. Nothing if the files do not say.
  std::optional<double> seconds_worked(std::optional<Moment> now) const;
  // When it was created: from its folder's record, else from the age of its files.
  Moment created() const;
  // Whether it has any of the files that identify a run.
  bool looks_like_a_run() const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;  // absolute
};

struct HeldRun {
  RunFolder folder;
  RunLock lock;
};

// Whether a folder's name can begin with it: letters, digits and . _ - , beginning with a letter or digit, at most 100
// bytes.
Result<void> check_run_name(std::string_view name);

// A checkpoint that has its final name, by its folder's step.
struct CheckpointFolder {
  std::int64_t step = 0;
  std::filesystem::path path;
};
// Oldest first.
std::vector<CheckpointFolder> checkpoint_folders(const RunFolder& run);

}  // namespace muster::store

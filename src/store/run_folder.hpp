// runs/<name>-<time>/: everything that is kept of one run, in documented text files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "store/run_lock.hpp"
#include "store/run_result.hpp"
#include "store/timestamp.hpp"

namespace muster::store {

struct HeldRun;

class RunFolder {
 public:
  // A new folder output/<name>-<time>, with "-2" behind it where that is taken, already locked when it appears. The
  // folders above it are made where they are missing.
  static Result<HeldRun> create(const std::filesystem::path& output, std::string_view name, Moment now);
  // A folder that is there, to look at. Refused where it is none.
  static Result<RunFolder> open(const std::filesystem::path& path);
  // To go on with: locked, and without the result.json of an earlier attempt. Refused while anyone works on it.
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
  // Nothing where the run has not ended, or was killed.
  Result<std::optional<RunResult>> read_result() const;

  // When it was made: as its folder's record says, else by the age of its files.
  Moment created() const;
  // Whether it has any of the files by which a run is known.
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

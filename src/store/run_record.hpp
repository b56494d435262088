// run.json: what a run is called, and where and with what it was last started.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "store/timestamp.hpp"

namespace muster::store {

struct RunGpu {
  int index = 0;  // as the command line counts them
  std::string name;
  std::string uuid;

  bool operator==(const RunGpu&) const = default;
};

// The newest command that worked on the run.
struct RunStart {
  Moment time;
  std::string host;
  std::string muster;  // its version: "0.1.0"
  int ranks = 1;
  std::vector<RunGpu> gpus;    // none: CPU ranks
  double seconds_before = 0;  // that earlier commands worked on the run

  bool operator==(const RunStart&) const = default;
};

struct RunRecord {
  std::string name;
  Moment created;
  std::optional<RunStart> start;  // absent: none has begun yet

  bool operator==(const RunRecord&) const = default;
};

inline constexpr std::string_view record_file = "run.json";

std::string record_json(const RunRecord& record);
// Nothing if the folder has no record, or an unreadable one.
std::optional<RunRecord> read_record(const std::filesystem::path& run_folder);

}  // namespace muster::store

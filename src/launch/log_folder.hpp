// Where the output of ranks goes: torchrun's tree of folders, and torchrun's choice of streams.
//
//   <log-dir>/<run-id>_<random>/attempt_<k>/<local rank>/{stdout.log,stderr.log,error.json}
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace muster::launch {

// Which of a rank's two streams something applies to.
struct Streams {
  bool output = false;
  bool errors = false;
  bool operator==(const Streams&) const = default;
};

// torchrun's -r and -t: "3" for every rank, or "0:3,1:1,12:2" by local rank (ranks that are not named: none). 0 none, 1
// output, 2 errors, 3 both.
class StreamChoice {
 public:
  StreamChoice() = default;
  static Result<StreamChoice> parse(std::string_view text);
  Streams of(int local_rank) const;
  bool operator==(const StreamChoice&) const = default;

 private:
  Streams every_;
  std::map<int, Streams> by_rank_;
  bool named_ = false;
};

struct LogOptions {
  std::optional<std::filesystem::path> folder;  // absent: a new one among the temporary files; "/dev/null": no files
  StreamChoice redirects;
  StreamChoice tee;                            // to the file and, line by line, to the console
  std::set<int> shown_ranks;                   // empty: all; others are kept off the console
  std::vector<std::string> output_filters;     // lines of tee'd output that hold one of these also go to
  std::vector<std::string> error_filters;      // filtered_stdout.log and filtered_stderr.log of the attempt
  std::optional<std::string> prefix_template;  // "[${role_name}${local_rank}]:" unless told otherwise
};

// Where one stream of one rank goes.
struct StreamTarget {
  std::optional<std::filesystem::path> file;  // written by the rank itself
  bool console = false;                       // also, or only, to the launcher's own stream
  bool prefixed = false;                      // line by line, with the prefix (tee)
};

struct RankLogs {
  StreamTarget output;
  StreamTarget errors;
  std::optional<std::filesystem::path> error_file;  // what TORCHELASTIC_ERROR_FILE names; absent: no files
};

// The folders of one attempt; made when it begins.
struct AttemptLogs {
  std::optional<std::filesystem::path> folder;
  std::vector<RankLogs> ranks;  // by local rank
  std::optional<std::filesystem::path> filtered_output;
  std::optional<std::filesystem::path> filtered_errors;
};

class LogFolder {
 public:
  // Makes <log-dir>/<run-id>_<random>. A log-dir that is a file is bad input.
  static Result<LogFolder> create(LogOptions options, const std::string& run_id);

  const LogOptions& options() const { return options_; }
  const std::optional<std::filesystem::path>& folder() const { return folder_; }  // of the run; absent: no files
  Result<AttemptLogs> begin_attempt(int attempt, int local_ranks);
  // After a run that ended well: removes a temporary folder that nobody asked for and that holds no file.
  void tidy();

 private:
  LogOptions options_;
  std::optional<std::filesystem::path> folder_;
  std::optional<std::filesystem::path> made_root_;  // the temporary folder above it
};

// "[default3]:" from "[${role_name}${local_rank}]:"; $rank, ${rank}, $$ as Python's string.Template; unknown names
// stay.
std::string log_prefix(std::string_view pattern, std::string_view role, int rank, int local_rank);

}  // namespace muster::launch

// What users request from the queue, as the files that carry it to the conductor.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "queue/state_folder.hpp"
#include "schedule/job.hpp"

namespace muster::queue {

using Environment = std::map<std::string, std::string>;

struct QueuedJob {
  schedule::Job job;                 // id: given by hand_in(); before, a name for later jobs of the batch, or nothing
  std::vector<std::string> command;  // program first, found through the PATH of the environment
  bool operator==(const QueuedJob&) const = default;
};

// The words that run a line as a shell would, and a command as a line that a shell reads back: of such a one, the line.
std::vector<std::string> shell_command(std::string line);
std::string spoken_command(const std::vector<std::string>& words);

// Jobs that were submitted together, from one place.
struct Batch {
  std::string folder;  // where the commands run
  Environment environment;
  std::vector<QueuedJob> jobs;
  unsigned int umask = 022;  // of the process that submitted them
  bool operator==(const Batch&) const = default;
};

struct StopRequest {
  std::vector<schedule::JobId> jobs;
  bool operator==(const StopRequest&) const = default;
};

// Settled jobs of which nothing will be kept. Others are left alone.
struct ForgetRequest {
  std::vector<schedule::JobId> jobs;
  bool operator==(const ForgetRequest&) const = default;
};

using Request = std::variant<Batch, StopRequest, ForgetRequest>;

std::string to_text(const Request& request);
// source names the text in messages.
Result<Request> parse_request(std::string_view text, std::string_view source);

// What is wrong with a batch, whatever the queue holds.
Result<void> check(const Batch& batch);

// Submits a request: durable when this returns, whether or not a conductor runs. The lock that is returned keeps
// others from submitting, and the conductor from ending: Note [The last look] in conductor.cpp. A batch's jobs get
// their ids here; a dependency on a job by a name, which is not a number, becomes one on its id.
struct HandedIn {
  FileDescriptor lock;
  std::filesystem::path file;  // removed once the conductor has taken it
};
Result<HandedIn> hand_in(const StateFolder& folder, Request& request);

}  // namespace muster::queue

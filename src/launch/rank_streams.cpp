#include "launch/rank_streams.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "system/files.hpp"

namespace muster::launch {
namespace {

Result<FileDescriptor> open_for_writing(const std::filesystem::path& path) {
  // Appending, so that what several processes of a rank write does not overwrite each other.
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file)
    return Error{Error::Kind::failed, fmt::format("cannot write {}: {}", path.string(), system_reason()),
                 "give another folder with --log-dir"};
  return file;
}

class Opener {
 public:
  Opener(const AttemptLogs& logs, const LogOptions& options, LogPump& pump) : logs_(logs), options_(options), pump_(pump) {}

  // The descriptor for one stream of one rank.
  Result<int> open(int local_rank, bool errors, const std::string& prefix) {
    const RankLogs& rank = logs_.ranks[static_cast<std::size_t>(local_rank)];
    const StreamTarget& target = errors ? rank.errors : rank.output;
    if (target.file) return open_file(local_rank, errors, target, prefix);
    if (!target.console) return keep(open_for_writing("/dev/null"));
    return errors ? open_relay(local_rank) : Result<int>(STDOUT_FILENO);
  }

  std::vector<FileDescriptor> take() { return std::move(opened_); }

 private:
  Result<int> keep(Result<FileDescriptor> descriptor) {
    if (!descriptor) return descriptor.error();
    opened_.push_back(std::move(*descriptor));
    return opened_.back().number();
  }

  Result<int> open_file(int local_rank, bool errors, const StreamTarget& target, const std::string& prefix) {
    auto file = keep(open_for_writing(*target.file));
    // Errors are followed even when nobody sees them: the report of a failure quotes their last lines.
    if (!file || (!errors && !target.console)) return file;
    PumpedStream stream;
    stream.local_rank = local_rank;
    stream.errors = errors;
    stream.followed = target.file;
    stream.console = target.console;
    if (target.prefixed) {
      stream.prefix = prefix;
      stream.filters = errors ? options_.error_filters : options_.output_filters;
      stream.filtered = errors ? logs_.filtered_errors : logs_.filtered_output;
    }
    if (auto added = pump_.add(std::move(stream)); !added) return added.error();
    return file;
  }

  Result<int> open_relay(int local_rank) {
    auto relay = relay_stream(STDERR_FILENO);
    if (!relay) return relay.error();
    PumpedStream stream;
    stream.local_rank = local_rank;
    stream.errors = true;
    stream.piped = std::move(relay->ours);
    if (auto added = pump_.add(std::move(stream)); !added) return added.error();
    return keep(std::move(relay->theirs));
  }

  const AttemptLogs& logs_;
  const LogOptions& options_;
  LogPump& pump_;
  std::vector<FileDescriptor> opened_;
};

}  // namespace

Result<RankStreams> open_rank_streams(const AttemptLogs& logs, const LogOptions& options,
                                      const std::vector<std::string>& prefixes, LogPump& pump) {
  Opener opener(logs, options, pump);
  RankStreams streams;
  for (int local_rank = 0; local_rank < static_cast<int>(logs.ranks.size()); ++local_rank) {
    const std::string& prefix = prefixes[static_cast<std::size_t>(local_rank)];
    const auto output = opener.open(local_rank, false, prefix);
    if (!output) return output.error();
    const auto errors = opener.open(local_rank, true, prefix);
    if (!errors) return errors.error();
    streams.output_and_errors.emplace_back(*output, *errors);
  }
  streams.opened = opener.take();
  return streams;
}

}  // namespace muster::launch

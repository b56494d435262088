#include "queue/request.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "system/file_lock.hpp"
#include "system/files.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "schedule/event.hpp"
#include "schedule/journal.hpp"

namespace muster::queue {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

Error damaged(std::string_view source, std::string_view what) {
  return {Error::Kind::bad_input, fmt::format("{} is not a request: {}", source, what),
          "remove the file; muster submit writes them"};
}

// Numbers instead of the names that jobs of one batch use for each other.
void give_ids(Batch& batch, std::int64_t& next) {
  std::map<schedule::JobId, schedule::JobId> given;
  for (QueuedJob& queued : batch.jobs) {
    schedule::JobId id{std::to_string(next++)};
    if (!queued.job.id.text.empty()) given.emplace(queued.job.id, id);
    for (auto* list : {&queued.job.after, &queued.job.after_ok})
      for (schedule::JobId& other : *list)
        if (const auto found = given.find(other); found != given.end()) other = found->second;
    queued.job.id = std::move(id);
  }
}

// A batch is a line for what its jobs share, one with the jobs as the journal has them, and a line for each command.
std::string batch_text(const Batch& batch) {
  std::vector<schedule::Job> jobs;
  for (const QueuedJob& queued : batch.jobs) jobs.push_back(queued.job);
  std::string text =
      ordered_json{
          {"request", "submit"}, {"folder", batch.folder}, {"umask", batch.umask}, {"environment", batch.environment}}
          .dump();
  text += '\n';
  text += schedule::to_line({schedule::Time{}, schedule::Submitted{std::move(jobs)}});
  text += '\n';
  for (const QueuedJob& queued : batch.jobs) {
    text += json(queued.command).dump();
    text += '\n';
  }
  return text;
}

bool is_list_of_text(const json& value) {
  if (!value.is_array()) return false;
  for (const json& item : value)
    if (!item.is_string()) return false;
  return true;
}

Result<Request> parse_batch(const json& header, const std::vector<std::string>& lines, std::string_view source) {
  const auto folder = header.find("folder"), environment = header.find("environment");
  if (folder == header.end() || !folder->is_string() || environment == header.end() || !environment->is_object())
    return damaged(source, "folder and environment are missing");
  Batch batch;
  batch.folder = folder->get<std::string>();
  constexpr unsigned int all_bits = 0777;
  if (const auto umask = header.find("umask"); umask != header.end()) {
    if (!umask->is_number_unsigned() || umask->get<std::uint64_t>() > all_bits)
      return damaged(source, "its umask is not a number up to 511");
    batch.umask = umask->get<unsigned int>();
  }
  for (const auto& [name, value] : environment->items()) {
    if (!value.is_string()) return damaged(source, "the environment holds a value that is not text");
    batch.environment[name] = value.get<std::string>();
  }
  if (lines.size() < 2) return damaged(source, "it has no jobs");
  auto event = schedule::read_line(lines[1], fmt::format("{}:2", source));
  if (!event) return event.error();
  auto* submitted = std::get_if<schedule::Submitted>(&event->what);
  if (submitted == nullptr || submitted->jobs.size() + 2 != lines.size() || submitted->jobs.empty())
    return damaged(source, "its jobs and its commands do not match");
  for (std::size_t position = 0; position < submitted->jobs.size(); ++position) {
    const json command = json::parse(lines[position + 2], nullptr, false);
    if (!is_list_of_text(command) || command.empty()) return damaged(source, "a command is not a list of words");
    batch.jobs.push_back({std::move(submitted->jobs[position]), command.get<std::vector<std::string>>()});
  }
  return Request(std::move(batch));
}

// "stop" and "forget" are lists of jobs.
template <class List>
Result<Request> parse_list(const json& header, std::string_view source) {
  const auto jobs = header.find("jobs");
  if (jobs == header.end() || !is_list_of_text(*jobs)) return damaged(source, "it names no jobs");
  List list;
  for (const json& id : *jobs) list.jobs.push_back({id.get<std::string>()});
  return Request(std::move(list));
}

std::string list_text(const char* request, const std::vector<schedule::JobId>& jobs) {
  ordered_json out{{"request", request}, {"jobs", json::array()}};
  for (const schedule::JobId& id : jobs) out["jobs"].push_back(id.text);
  return out.dump() + "\n";
}

struct Counter {
  std::int64_t next_job = 1;
  std::int64_t next_request = 1;
};

Result<Counter> read_counter(const StateFolder& folder) {
  const std::filesystem::path path = folder.counter();
  const bool is_new = ::access(path.c_str(), F_OK) != 0 && errno == ENOENT;
  // Numbers are never given twice: a queue that has a journal has a counter.
  if (is_new && ::access(folder.journal().c_str(), F_OK) != 0) return Counter{};
  const auto text = read_file(path);
  if (!text)
    return Error{Error::Kind::failed, text.error().what,
                 fmt::format("write two numbers above those of all jobs and requests into it: echo 100001 100001 > {}",
                             path.string())};
  const auto words = split(trim(*text), ' ');
  const auto job = parse_number<std::int64_t>(words.front());
  const auto request = parse_number<std::int64_t>(words.back());
  if (words.size() != 2 || !job || !request || *job < 1 || *request < 1)
    return Error{Error::Kind::failed, fmt::format("{} should hold two numbers, and holds \"{}\"", path.string(), *text),
                 "write two numbers above those of all jobs and requests into it"};
  return Counter{*job, *request};
}

}  // namespace

std::vector<std::string> shell_command(std::string line) { return {"/bin/sh", "-c", std::move(line)}; }

std::string spoken_command(const std::vector<std::string>& words) {
  const bool is_line = words.size() == 3 && words == shell_command(words.back());
  if (is_line) return words.back();
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  return join(quoted, " ");
}

std::string to_text(const Request& request) {
  if (const auto* batch = std::get_if<Batch>(&request)) return batch_text(*batch);
  if (const auto* stop = std::get_if<StopRequest>(&request)) return list_text("stop", stop->jobs);
  return list_text("forget", std::get<ForgetRequest>(request).jobs);
}

Result<Request> parse_request(std::string_view text, std::string_view source) {
  if (text.empty() || text.back() != '\n') return damaged(source, "it has no end");
  text.remove_suffix(1);
  const std::vector<std::string> lines = split(text, '\n');
  const json header = json::parse(lines.front(), nullptr, false);
  if (!header.is_object()) return damaged(source, "its first line is not a JSON object");
  const auto kind = header.find("request");
  if (kind != header.end() && *kind == "submit") return parse_batch(header, lines, source);
  if (kind != header.end() && *kind == "stop") return parse_list<StopRequest>(header, source);
  if (kind != header.end() && *kind == "forget") return parse_list<ForgetRequest>(header, source);
  return damaged(source, "it is neither \"submit\" nor \"stop\" nor \"forget\"");
}

Result<void> check(const Batch& batch) {
  const auto no_text = [](std::string_view what) {
    return Error{Error::Kind::bad_input, fmt::format("{} is not UTF-8", what), "write it in UTF-8"};
  };
  if (batch.jobs.empty()) return Error{Error::Kind::bad_input, "there is no command", "muster submit -- COMMAND"};
  if (!is_utf8(batch.folder)) return no_text("the name of the current folder");
  for (const auto& [name, value] : batch.environment)
    if (!is_utf8(name) || !is_utf8(value)) return no_text(fmt::format("the environment variable {}", name));
  for (const QueuedJob& queued : batch.jobs) {
    if (!is_utf8(queued.job.label)) return no_text("the label");
    if (queued.command.empty() || queued.command.front().empty())
      return Error{Error::Kind::bad_input, "the command begins with an empty word: no program is named",
                   "muster submit -- COMMAND"};
    for (const std::string& word : queued.command)
      if (!is_utf8(word)) return no_text(fmt::format("a word of the command {}", queued.command.front()));
  }
  return {};
}

Result<HandedIn> hand_in(const StateFolder& folder, Request& request) {
  // Not the counter itself, which is replaced each time.
  auto lock = lock_file(folder.path() / "counter.lock");
  if (!lock) return lock.error();
  auto counter = read_counter(folder);
  if (!counter) return counter.error();
  const std::int64_t number = counter->next_request++;
  if (auto* batch = std::get_if<Batch>(&request)) give_ids(*batch, counter->next_job);
  // The counter first: numbers may be skipped, but are never given twice.
  if (auto written =
          write_file_atomically(folder.counter(), fmt::format("{} {}\n", counter->next_job, counter->next_request));
      !written)
    return written.error();
  const auto staged = folder.path() / fmt::format("request-{}", number);
  auto place = folder.inbox() / fmt::format("{:012}.jsonl", number);
  const auto cannot = [&place] {
    return Error{Error::Kind::failed, fmt::format("cannot write {}: {}", place.string(), system_reason()),
                 "check free space and permissions of the folder"};
  };
  // Everything that may be lacking is acquired before the request appears: from then on the conductor may take it.
  const FileDescriptor outer(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const FileDescriptor inbox(::open(folder.inbox().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!outer || !inbox) return cannot();
  if (auto written = write_file_atomically(staged, to_text(request)); !written) return written.error();
  if (::rename(staged.c_str(), place.c_str()) != 0) {
    const Error error = cannot();
    ::unlink(staged.c_str());
    return error;
  }
  for (const FileDescriptor* changed : {&outer, &inbox})
    if (::fsync(changed->number()) != 0) return cannot();
  return HandedIn{std::move(*lock), std::move(place)};
}

}  // namespace muster::queue

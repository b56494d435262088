#include "service/queue.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>
#include <unordered_set>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "host/memory_wait.hpp"
#include "host/planned_gpus.hpp"
#include "launch/worker_environment.hpp"
#include "queue/conductor.hpp"
#include "queue/conductor_process.hpp"
#include "queue/conductor_status.hpp"
#include "queue/grid.hpp"
#include "queue/journal_repair.hpp"
#include "queue/request.hpp"
#include "schedule/why.hpp"
#include "service/queue_gpus.hpp"
#include "system/files.hpp"
#include "system/process.hpp"

namespace muster::service {
namespace {

using schedule::JobId;
using std::chrono::milliseconds;

constexpr std::size_t most_jobs_named = 1'000'000;
constexpr milliseconds look_pause(20);
constexpr milliseconds longest_doubt(1000);  // submit waits this long for an answer of a conductor with too few GPUs

Error unknown_job(const JobId& id) {
  return {Error::Kind::bad_input, fmt::format("there is no job {}", id.text), "muster queue --all lists the jobs"};
}

Error no_current_folder(const std::error_code& failure) {
  return {Error::Kind::failed, fmt::format("there is no current folder: {}", failure.message()), "cd to one"};
}

// A span from the environment; an invalid one is reported in the conductor's log, and the default counts.
milliseconds span_from_environment(const char* name, milliseconds usual) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return usual;
  const auto span = parse_duration(text);
  if (span) return *span;
  queue::write_log(fmt::format("{}: {}; {} counts", name, span.error().what, muster::to_string(usual)));
  return usual;
}

int conduct(const queue::StateFolder& folder, const host::HostSources& sources, FileDescriptor lock) {
  QueueGpus gpus(sources);
  queue::ConductorOptions options;
  options.idle = span_from_environment("MUSTER_QUEUE_IDLE", options.idle);
  options.grace = span_from_environment("MUSTER_QUEUE_GRACE", options.grace);
  options.look = span_from_environment("MUSTER_QUEUE_LOOK", options.look);
  if (const char* kept = std::getenv("MUSTER_QUEUE_KEPT"); kept != nullptr && *kept != '\0') {
    if (const auto number = parse_number<std::size_t>(kept))
      options.kept = *number;
    else
      queue::write_log(fmt::format("MUSTER_QUEUE_KEPT: \"{}\" is not a number; {} counts", kept, options.kept));
  }
  auto conductor = queue::Conductor::open(folder, gpus, std::move(lock), options);
  const auto done = conductor ? conductor->run() : Result<void>(conductor.error());
  if (done) return 0;
  queue::write_log(to_string(done.error()));
  return 1;
}

// The status that a shell would report.
int shell_status(const queue::CommandEnd& end) {
  constexpr int signal_base = 128;
  return end.how == schedule::HowEnded::killed ? signal_base + end.code : end.code;
}

}  // namespace

Result<std::vector<std::vector<std::string>>> commands_of_lines(std::string_view text, bool expand) {
  std::vector<std::vector<std::string>> commands;
  std::size_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    const std::string_view command = trim(line);
    if (command.empty() || command.front() == '#') continue;
    if (!is_utf8(command) || command.find('\0') != std::string_view::npos)
      return Error{Error::Kind::bad_input, fmt::format("line {} of standard input is not text in UTF-8", number),
                   "write a command on every line"};
    std::vector<std::string> expanded{std::string(command)};
    if (expand) {
      auto grid = queue::expand_grid(command);
      if (!grid) return grid.error();
      expanded = std::move(*grid);
    }
    for (std::string& one : expanded) commands.push_back(queue::shell_command(std::move(one)));
  }
  return commands;
}

Result<JobIds> read_job_ids(const std::vector<std::string>& words) {
  JobIds ids;
  for (const std::string& word : words) {
    const auto dash = word.find('-');
    const auto first = parse_number<std::uint32_t>(std::string_view(word).substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_number<std::uint32_t>(word.substr(dash + 1));
    if (first && last && *last >= *first && *last - *first >= most_jobs_named)
      return Error{Error::Kind::bad_input, fmt::format("\"{}\" names more than a million jobs", word), "name fewer"};
    if (!first || !last || *last < *first)
      return Error{Error::Kind::bad_input, fmt::format("\"{}\" names no job", word), "write a number, or two as 7-12"};
    for (std::uint64_t number = *first; number <= *last; ++number) ids.push_back({std::to_string(number)});
  }
  return ids;
}

Result<Queue> Queue::open(host::HostSources sources) {
  auto folder = queue::StateFolder::usual();
  if (!folder) return folder.error();
  if (auto prepared = folder->prepare(); !prepared) return prepared.error();
  // The conductor works in another folder.
  std::error_code failure;
  if (sources.inventory_file) sources.inventory_file = std::filesystem::absolute(*sources.inventory_file, failure);
  if (!failure) sources.lease_folder = std::filesystem::absolute(sources.lease_folder, failure);
  if (failure) return no_current_folder(failure);
  return Queue(std::move(*folder), std::move(sources));
}

int conduct_queue(const host::HostSources& sources) {
  const auto folder = queue::StateFolder::usual();
  if (!folder) return exit_code(folder.error().kind);
  return queue::be_conductor(*folder, [&](FileDescriptor lock) { return conduct(*folder, sources, std::move(lock)); });
}

Result<void> Queue::ensure_conductor() {
  return queue::ensure_conductor(folder_, {"queue", "conduct"}, host::environment_of(sources_));
}

Result<std::filesystem::path> Queue::hand_in(queue::Request& request) {
  const auto handed_in = queue::hand_in(folder_, request);
  if (!handed_in) return handed_in.error();
  // From here on it is in the queue, even if a conductor cannot be started now: the next command starts one.
  if (auto ensured = ensure_conductor(); !ensured)
    note(fmt::format("{}; the queue goes on with the next muster command: muster wait", ensured.error().what));
  return handed_in->file;
}

void Queue::note(const std::string& text) {
  if (note_ && text != last_note_) note_(text);
  last_note_ = text;
}

const schedule::JobRecord* Queue::record_of(const JobId& id) const {
  if (const auto job = view_.scheduler().jobs().find(id)) return &view_.scheduler().jobs().at(*job);
  const auto archived = archived_.find(id);
  return archived == archived_.end() ? nullptr : &archived->second.record;
}

Result<void> Queue::check_known(const JobIds& ids) {
  const auto is_in_journal = [&](const JobId& id) { return view_.scheduler().jobs().find(id).has_value(); };
  if (auto read = view_.refresh(); !read) return read;
  if (std::ranges::all_of(ids, is_in_journal)) return {};
  const auto untaken = view_.refresh_with_inbox();
  if (!untaken) return untaken.error();
  std::unordered_set<std::string> missing;
  for (const JobId& id : ids)
    if (record_of(id) == nullptr) missing.insert(id.text);
  auto found = missing.empty() ? std::vector<queue::ArchivedJob>() : archive_->find(missing);
  if (!found) return found.error();
  for (queue::ArchivedJob& job : *found) archived_.insert_or_assign(job.record.job.id, std::move(job));
  for (const JobId& id : ids) {
    const bool is_untaken = std::ranges::any_of(*untaken, [&](const queue::Batch& batch) {
      return std::ranges::any_of(batch.jobs, [&](const queue::QueuedJob& queued) { return queued.job.id == id; });
    });
    if (is_untaken || record_of(id) != nullptr) continue;
    if (const auto refusal = view_.refusal(id))
      return Error{Error::Kind::refused, fmt::format("job {} was not accepted: {}", id.text, *refusal), ""};
    return unknown_job(id);
  }
  return {};
}

Result<void> Queue::check_gpus(int wanted) {
  if (wanted == 0) return {};
  host::Host host(sources_);
  const auto view = host.look(gpu::Detail::memory);
  if (!view) return view.error();
  const std::size_t visible = view->visible.size();
  if (static_cast<std::size_t>(wanted) <= visible) return {};
  return Error{Error::Kind::refused,
               fmt::format("{} GPU{} wanted, {} visible", wanted, wanted == 1 ? "" : "s", visible),
               visible == 0 ? std::string("-n 0 for a command that needs none; muster doctor says why no GPU is seen")
                            : fmt::format("-n {} or fewer; muster doctor says why no more are seen", visible)};
}

Result<void> Queue::check_predecessors(const schedule::Job& job) {
  for (const JobIds* ids : {&job.after, &job.after_ok})
    if (auto known = check_known(*ids); !known) return known;
  for (const JobId& id : job.after_ok)
    if (const auto archived = archived_.find(id);
        archived != archived_.end() && archived->second.record.state != schedule::JobState::succeeded)
      return Error{Error::Kind::refused,
                   fmt::format("job {} is {}: a job that waits for its success never begins", id.text,
                               name(archived->second.record.state)),
                   "--after begins when it has ended, however it did"};
  return {};
}

Result<JobIds> Queue::submit(const SubmitRequest& submission) {
  if (!submission.by_plan)
    if (auto fits = check_gpus(submission.job.gpus.minimum); !fits) return fits.error();
  if (auto checked = check_predecessors(submission.job); !checked) return checked.error();
  std::vector<queue::QueuedJob> jobs;
  for (const auto& command : submission.commands) {
    jobs.push_back({submission.job, command});
    jobs.back().job.id = {};
    if (!submission.by_plan) continue;
    const auto gpus = host::planned_gpus(sources_, command, folder_.path());
    if (!gpus) return gpus.error();
    jobs.back().job.gpus = schedule::GpuRequest::exactly(*gpus);
  }
  return submit(std::move(jobs));
}

// The conductor may have been started by a process that saw fewer GPUs. If the journal does not list enough of them,
// its answer is awaited, so that no id is printed for a job that will never exist.
Result<void> Queue::check_accepted(const JobId& first, int wanted, const std::filesystem::path& request) {
  if (wanted == 0) return {};
  if (auto read = view_.refresh(); !read) return read;
  if (wanted <= view_.scheduler().gpus().size()) return {};
  const auto end = std::chrono::steady_clock::now() + longest_doubt;
  std::error_code failure;
  while (std::filesystem::exists(request, failure) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(look_pause / 4);
  const auto refusal = view_.refusal(first);
  if (!refusal) return {};
  return Error{Error::Kind::refused, fmt::format("the queue did not accept {}", *refusal),
               "its conductor has the GPUs that the command which started it saw; it ends when it was idle for a few "
               "seconds: submit again then"};
}

Result<JobIds> Queue::submit(std::vector<queue::QueuedJob> jobs) {
  std::error_code failure;
  queue::Batch batch;
  batch.folder = std::filesystem::current_path(failure).string();
  if (failure) return no_current_folder(failure);
  batch.environment = launch::current_environment();
  batch.umask = current_umask();
  for (const char* name : {"MUSTER_LEASE", "MUSTER_KEEPER"}) batch.environment.erase(name);
  batch.jobs = std::move(jobs);
  if (auto checked = queue::check(batch); !checked) return checked.error();
  int wanted = 0;
  for (const queue::QueuedJob& queued : batch.jobs) wanted = std::max(wanted, queued.job.gpus.minimum);
  queue::Request request(std::move(batch));
  const auto handed_in = hand_in(request);
  if (!handed_in) return handed_in.error();
  const JobId first = std::get<queue::Batch>(request).jobs.front().job.id;
  if (auto accepted = check_accepted(first, wanted, *handed_in); !accepted) return accepted.error();
  JobIds ids;
  for (const queue::QueuedJob& queued : std::get<queue::Batch>(request).jobs) ids.push_back(queued.job.id);
  return ids;
}

Result<std::vector<schedule::Job>> Queue::open_jobs_of_chains(std::string_view beginning) {
  const auto untaken = look();
  if (!untaken) return untaken.error();
  std::vector<schedule::Job> open;
  const auto take = [&](const schedule::Job& job) {
    if (job.chain && job.chain->name.starts_with(beginning)) open.push_back(job);
  };
  for (const auto& record : view_.scheduler().jobs().all())
    if (!is_settled(record.state)) take(record.job);
  for (const queue::Batch& batch : *untaken)
    for (const queue::QueuedJob& queued : batch.jobs) take(queued.job);
  return open;
}

Result<void> Queue::stop(const JobIds& ids, const std::function<void(const schedule::JobRecord&)>& settled) {
  if (auto known = check_known(ids); !known) return known;
  queue::StopRequest stop;
  for (const JobId& id : ids) {
    const schedule::JobRecord* record = record_of(id);
    if (record == nullptr || !is_settled(record->state))
      stop.jobs.push_back(id);
    else if (ids.size() == 1)
      return Error{Error::Kind::refused, fmt::format("job {} does not run any more: {}", id.text, name(record->state)),
                   ""};
    else if (settled)
      settled(*record);
  }
  if (stop.jobs.empty()) return {};
  queue::Request request(std::move(stop));
  const auto handed_in = hand_in(request);
  return handed_in ? Result<void>() : handed_in.error();
}

Result<std::vector<queue::Batch>> Queue::look() {
  auto untaken = view_.refresh_with_inbox();
  if (!untaken || queue::conductor_runs(folder_)) return untaken;
  const auto& all = view_.scheduler().jobs().all();
  const bool is_open = std::ranges::any_of(all, [](const auto& record) { return !is_settled(record.state); });
  if (is_open || !untaken->empty())
    if (auto ensured = ensure_conductor(); !ensured) return ensured.error();
  return untaken;
}

Result<JobIds> Queue::open_jobs() {
  const auto untaken = look();
  if (!untaken) return untaken.error();
  JobIds ids;
  for (const auto& record : view_.scheduler().jobs().all())
    if (!is_settled(record.state)) ids.push_back(record.job.id);
  for (const queue::Batch& batch : *untaken)
    for (const queue::QueuedJob& queued : batch.jobs) ids.push_back(queued.job.id);
  return ids;
}

Result<int> Queue::wait(const JobIds& ids, const std::function<void(const schedule::JobRecord&)>& settled,
                        const Watch& watch) {
  if (auto known = check_known(ids); !known) return known.error();
  std::set<JobId> left(ids.begin(), ids.end());
  const bool is_one = left.size() == 1;
  int status = 0;
  const auto take = [&](const JobId& id) {
    const schedule::JobRecord* record = record_of(id);
    if (record == nullptr || !is_settled(record->state) || left.erase(id) == 0) return;
    settled(*record);
    if (record->state == schedule::JobState::succeeded) return;
    const bool tells = is_one && record->state == schedule::JobState::failed && record->last_end;
    status = tells ? std::max(shell_status(*record->last_end), 1) : 1;
  };
  for (const JobId& id : ids) take(id);
  ConductorWatch attendance;
  while (!left.empty()) {
    if (watch && !watch(view_.scheduler())) return status;
    std::this_thread::sleep_for(look_pause);
    const schedule::Time before = view_.scheduler().now();
    if (auto read = view_.refresh(); !read) return read.error();
    for (const JobId& id : view_.newly_settled()) take(id);
    attendance.note(view_.scheduler().now() != before);
    if (left.empty() || !attendance.is_due()) continue;
    if (auto attended = attend(attendance, {left.begin(), left.end()}); !attended) return attended.error();
    for (const JobId& id : ids) take(id);  // some may have been settled between the looks
  }
  return status;
}

// Checks that a conductor works on what is waited for, and that none of it was refused.
Result<void> Queue::attend(ConductorWatch& attendance, const JobIds& ids) {
  if (auto known = check_known(ids); !known) return known;
  if (const auto trouble = queue::conductor_trouble(folder_)) note(*trouble);
  if (!queue::conductor_runs(folder_) && !attendance.may_start())
    return Error{Error::Kind::failed, "the queue's conductor was started 20 times and ended each time",
                 fmt::format("tail {}", folder_.conductor_log().string())};
  const auto seen = look();
  return seen ? Result<void>() : seen.error();
}

Result<void> Queue::logs(const JobId& id, bool follow, const std::function<void(std::string_view)>& write,
                         const std::function<void()>& not_begun) {
  if (auto known = check_known({id}); !known) return known;
  FileDescriptor file;
  while (true) {
    // Checked before the log is read: what a settled job wrote is there.
    if (auto read = view_.refresh(); !read) return read;
    const schedule::JobRecord* record = record_of(id);
    if (record == nullptr)  // it may have left the journal in the meantime
      if (auto known = check_known({id}); !known) return known;
    const bool is_final = record != nullptr && is_settled(record->state);
    if (!file) file = FileDescriptor(::open(folder_.log(id).c_str(), O_RDONLY | O_CLOEXEC));
    char block[65536];
    for (ssize_t got = 1; file && got > 0;) {
      got = ::read(file.number(), block, sizeof block);
      if (got > 0) write({block, static_cast<std::size_t>(got)});
    }
    if (is_final || !follow) return {};
    if (!file && not_begun) not_begun();
    if (const auto seen = look(); !seen) return seen.error();
    std::this_thread::sleep_for(look_pause);
  }
}

Result<std::string> Queue::why(const JobId& id) {
  if (auto known = check_known({id}); !known) return known.error();
  if (const auto seen = look(); !seen) return seen.error();
  if (!view_.scheduler().jobs().find(id)) {
    const schedule::JobRecord* old = record_of(id);
    if (old == nullptr) return fmt::format("{} was submitted, and is not in the line yet\n", id.text);
    return fmt::format("{} waits for nothing: {}{}{}\n", id.text, name(old->state), old->reason.empty() ? "" : ", ",
                       old->reason);
  }
  const auto answer = schedule::why(view_.scheduler(), id);
  if (!answer) return answer.error();
  const auto trouble = queue::conductor_trouble(folder_);
  return to_text(*answer) + (trouble ? *trouble + "\n" : "");
}

Result<std::string> Queue::repair() {
  const auto repair = queue::repair_journal(folder_);
  if (!repair) return repair.error();
  if (repair->damaged.empty() && repair->handed_in == 0) return std::string("the journal is not damaged\n");
  if (const auto seen = look(); !seen) return seen.error();
  return fmt::format("{} line{} kept, {} dropped ({}); {} submission{} taken again from batches\n", repair->kept,
                     repair->kept == 1 ? "" : "s", repair->dropped, repair->damaged.string(), repair->handed_in,
                     repair->handed_in == 1 ? "" : "s");
}

}  // namespace muster::service

#include "sweep/file_ledger.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "system/file_lock.hpp"
#include "system/files.hpp"
#include "base/text.hpp"
#include "json/json_text.hpp"

namespace muster::sweep {

using json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

Error cannot(const char* what, const fs::path& path) {
  return {Error::Kind::failed, fmt::format("cannot {} {}: {}", what, path.string(), system_reason()),
          "check the folder's permissions and free space"};
}

Result<FileDescriptor> open_to_append(const fs::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) return cannot("open", path);
  return file;
}

// One write. A partial line left by a killed process is cut off first. Only inside the lock.
Result<void> append_line(const FileDescriptor& file, const fs::path& path, const std::string& line) {
  const off_t size = ::lseek(file.number(), 0, SEEK_END);
  char last = '\n';
  if (size > 0 && ::pread(file.number(), &last, 1, size - 1) == 1 && last != '\n') {
    const auto text = read_file(path);
    if (!text) return text.error();
    const std::size_t whole = text->rfind('\n');
    if (::ftruncate(file.number(), whole == std::string::npos ? 0 : static_cast<off_t>(whole + 1)) != 0)
      return cannot("write", path);
  }
  if (::write(file.number(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return cannot("write", path);
  return {};
}

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::vector<std::string> texts = split(text, '\n');
  texts.pop_back();  // what follows the last newline was never finished
  for (const std::string& line : texts)
    if (auto parsed = parse_ordered_json_object(line, "")) lines.push_back(std::move(*parsed));
  return lines;
}

std::optional<Settings> settings_of(const json& object) {
  const auto found = object.find("parameters");
  if (found == object.end() || !found->is_object()) return std::nullopt;
  Settings settings;
  for (const auto& [path, value] : found->items()) {
    auto read = value_from_json(value);
    if (!read) return std::nullopt;
    settings.push_back({path, std::move(*read)});
  }
  return settings;
}

// The N of NAME.r.N; nothing if it is not an id of this sweep.
std::optional<std::uint64_t> number_of_trial(const std::string& name, const std::string& trial) {
  const std::string beginning = name + ".r.";
  if (!trial.starts_with(beginning)) return std::nullopt;
  return parse_number<std::uint64_t>(trial.substr(beginning.size()));
}

}  // namespace

struct FileLedger::Unfinished {
  RunningTrial trial;
  int attempts = 0;     // that were not left in good order
  FileDescriptor file;  // locked by us if it was cut off; else not open
};

FileLedger::FileLedger(SweepFolder folder) : folder_(std::move(folder)) {
  if (const auto text = read_file(folder_.seconds())) seconds_before_ = parse_number<double>(trim(*text)).value_or(0);
}

double FileLedger::seconds() const {
  return seconds_before_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
}

Result<void> FileLedger::note_seconds() const {
  return write_file_atomically(folder_.seconds(), fmt::format("{:.3f}\n", seconds()));
}

Result<std::vector<Observation>> read_observations_file(const SweepFolder& folder) {
  if (!fs::exists(folder.observations())) return std::vector<Observation>();
  const auto text = read_file(folder.observations());
  if (!text) return text.error();
  return read_observations(*text, folder.observations().string());
}

Result<void> FileLedger::read_finished() {
  std::error_code failure;
  const std::uintmax_t bytes = fs::file_size(folder_.observations(), failure);
  if (failure || bytes == finished_bytes_) return {};
  auto read = read_observations_file(folder_);
  if (!read) return read.error();
  finished_ = std::move(*read);
  finished_bytes_ = bytes;
  return {};
}

// The locks of trials that were cut off are ours from here on.
Result<std::vector<FileLedger::Unfinished>> FileLedger::read_unfinished() {
  std::vector<Unfinished> list;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_.running(), failure)) {
    const std::string id = entry.path().stem().string();
    if (entry.path().extension() != ".jsonl" || !number_of_trial(folder_.name(), id)) continue;
    const auto text = read_file(entry.path());
    if (!text) return text.error();
    const std::vector<json> lines = lines_of(*text);
    const auto settings = lines.empty() ? std::nullopt : settings_of(lines.front());
    const bool has_ended = std::ranges::find(finished_, id, &Observation::trial) != finished_.end();
    if (!held_.contains(id) && (has_ended || !settings)) {  // its process was killed before it began, or as it ended
      fs::remove(entry.path(), failure);
      continue;
    }
    Unfinished trial{{id, settings.value_or(Settings()), !held_.contains(id)}, 0, {}};
    for (const json& line : lines)
      trial.attempts += static_cast<int>(line.contains("attempt")) - static_cast<int>(line.contains("left"));
    if (trial.trial.elsewhere) {
      auto file = open_to_append(entry.path());
      if (!file) return file.error();
      const auto locked = try_to_lock(*file, entry.path());
      if (!locked) return locked.error();
      if (*locked) trial.file = std::move(*file);
    }
    list.push_back(std::move(trial));
  }
  if (failure) return cannot("read", folder_.running());
  std::ranges::sort(list, {}, [&](const Unfinished& one) { return number_of_trial(folder_.name(), one.trial.trial); });
  return list;
}

Result<TrialList> FileLedger::trials() {
  const auto inside = lock_file(folder_.lock());
  if (!inside) return inside.error();
  if (auto read = read_finished(); !read) return read.error();
  const auto unfinished = read_unfinished();
  if (!unfinished) return unfinished.error();
  TrialList trials{finished_, {}};
  for (const Unfinished& one : *unfinished)
    if (!one.file) trials.running.push_back(one.trial);
  return trials;
}

Result<std::optional<RunningTrial>> FileLedger::begin(const Chooser& choose) {
  const auto inside = lock_file(folder_.lock());
  if (!inside) return inside.error();
  if (auto read = read_finished(); !read) return read.error();
  auto unfinished = read_unfinished();
  if (!unfinished) return unfinished.error();
  std::vector<Unfinished> cut_off;
  TrialList trials;
  for (Unfinished& one : *unfinished) {
    if (!one.file) {
      trials.running.push_back(std::move(one.trial));
    } else if (one.attempts >= most_attempts) {
      Observation failure{one.trial.trial, one.trial.settings};
      failure.reason = fmt::format("its process ended {} times before it did", one.attempts);
      if (auto done = record(failure); !done) return done.error();
    } else {
      cut_off.push_back(std::move(one));
    }
  }
  trials.finished = finished_;
  if (auto noted = note_seconds(); !noted) return noted.error();
  auto suggestion = choose(trials);
  if (!suggestion) return std::optional<RunningTrial>();
  if (!cut_off.empty()) return begin_again(cut_off);
  auto trial = begin_new(trials, std::move(suggestion->settings));
  if (!trial) return trial.error();
  return std::optional(std::move(*trial));
}

Result<std::optional<RunningTrial>> FileLedger::begin_again(std::vector<Unfinished>& cut_off) {
  Unfinished& first = cut_off.front();
  const fs::path path = folder_.running(first.trial.trial);
  // Reports of an earlier attempt no longer count.
  if (fs::exists(folder_.reports())) {
    const auto reports = open_to_append(folder_.reports());
    if (!reports) return reports.error();
    const std::string again = json{{"trial", first.trial.trial}, {"again", true}}.dump() + "\n";
    if (auto written = append_line(*reports, folder_.reports(), again); !written) return written.error();
  }
  // Last: an attempt that could not be begun is not counted.
  const std::string line = json{{"attempt", first.attempts + 1}}.dump() + "\n";
  if (auto written = append_line(first.file, path, line); !written) return written.error();
  first.trial.elsewhere = false;
  held_.insert_or_assign(first.trial.trial, std::move(first.file));
  return std::optional(first.trial);
}

Result<RunningTrial> FileLedger::begin_new(const TrialList& trials, Settings settings) {
  std::uint64_t next = 0;
  const auto pass = [&](const std::string& id) {
    if (const auto number = number_of_trial(folder_.name(), id)) next = std::max(next, *number + 1);
  };
  for (const Observation& observation : trials.finished) pass(observation.trial);
  for (const RunningTrial& running : trials.running) pass(running.trial);
  RunningTrial trial{fmt::format("{}.r.{}", folder_.name(), next), std::move(settings)};
  const fs::path path = folder_.running(trial.trial);
  auto file = open_to_append(path);
  if (!file) return file.error();
  const auto locked = try_to_lock(*file, path);
  if (!locked) return locked.error();
  if (!*locked) return Error{Error::Kind::refused, fmt::format("somebody else holds {}", path.string()), "try again"};
  const json first{{"trial", trial.trial}, {"parameters", to_json(trial.settings)}, {"attempt", 1}};
  if (auto written = append_line(*file, path, first.dump() + "\n"); !written) return written.error();
  held_.insert_or_assign(trial.trial, std::move(*file));
  return trial;
}

Result<std::vector<Report>> FileLedger::report(const Report& report) {
  const auto inside = lock_file(folder_.lock());
  if (!inside) return inside.error();
  const auto file = open_to_append(folder_.reports());
  if (!file) return file.error();
  const json line{{"trial", report.trial}, {"step", report.step}, {"score", report.score}};
  if (auto written = append_line(*file, folder_.reports(), line.dump() + "\n"); !written) return written.error();
  const auto text = read_file(folder_.reports());
  if (!text) return text.error();
  std::vector<Report> reports;
  for (const json& told : lines_of(*text)) {
    const auto named = told.find("trial");
    if (named == told.end() || !named->is_string()) continue;
    const auto trial = named->get<std::string>();
    if (told.contains("again")) {
      std::erase_if(reports, [&](const Report& earlier) { return earlier.trial == trial; });
      continue;
    }
    const auto step = told.find("step"), score = told.find("score");
    if (step == told.end() || !step->is_number_integer() || score == told.end()) continue;
    reports.push_back({trial, step->get<std::int64_t>(), score->is_number() ? score->get<double>() : std::nan("")});
  }
  return reports;
}

Result<void> FileLedger::finish(const Observation& observation) {
  const auto inside = lock_file(folder_.lock());
  if (!inside) return inside.error();
  if (auto read = read_finished(); !read) return read.error();
  if (auto done = record(observation); !done) return done.error();
  held_.erase(observation.trial);
  static_cast<void>(!note_seconds());  // noted again with the next trial
  return {};
}

// On the disk before its file in running/ is gone: a trial that ended is never begun again.
Result<void> FileLedger::record(const Observation& observation) {
  const auto file = open_to_append(folder_.observations());
  if (!file) return file.error();
  if (auto written = append_line(*file, folder_.observations(), to_line(observation)); !written) return written;
  if (::fdatasync(file->number()) != 0) return cannot("write", folder_.observations());
  std::error_code failure;
  fs::remove(folder_.running(observation.trial), failure);
  return read_finished();
}

Result<void> FileLedger::leave(const std::string& trial) {
  const auto inside = lock_file(folder_.lock());
  if (!inside) return inside.error();
  const auto found = held_.find(trial);
  if (found == held_.end()) return {};
  auto left = append_line(found->second, folder_.running(trial), json{{"left", true}}.dump() + "\n");
  held_.erase(found);
  static_cast<void>(!note_seconds());
  return left;
}

}  // namespace muster::sweep

#include "store/run_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "system/files.hpp"
#include "system/regular_file.hpp"
#include "system/staged_folder.hpp"
#include "base/text.hpp"
#include "store/events_file.hpp"

namespace muster::store {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t longest_name = 100;

std::optional<Moment> last_change(const fs::path& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  return std::chrono::system_clock::from_time_t(facts.st_mtime);
}

std::optional<Moment> time_of_last_event(const fs::path& path) {
  const auto events = read_last_events(path);
  if (!events || events->empty()) return std::nullopt;
  const auto time = events->back().find("time");
  if (time == events->back().end() || !time->is_string()) return std::nullopt;
  return parse_timestamp(time->get_ref<const std::string&>());
}

bool is_taken(const fs::path& place) {
  std::error_code failure;
  return fs::symlink_status(place, failure).type() != fs::file_type::not_found;
}

}  // namespace

Result<void> check_run_name(std::string_view name) {
  const auto is_letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  const bool good =
      !name.empty() && name.size() <= longest_name && is_letter_or_digit(name.front()) && is_utf8(name) &&
      std::ranges::all_of(name, [&](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
  if (good) return {};
  return Error{Error::Kind::bad_input, fmt::format("a run cannot be called \"{}\"", name),
               "letters, digits and . _ - make a name, as in --name my-run.1"};
}

namespace {

struct Staged {
  StagedFolder folder;
  RunLock lock;
};

Result<Staged> stage(const fs::path& place, std::string_view name, Moment now, std::span<const FirstFile> files) {
  auto staged = StagedFolder::create(place);
  if (!staged) return staged.error();
  auto lock = RunLock::take(staged->path());
  if (!lock) return lock.error();
  if (auto written = staged->write(record_file, record_json({std::string(name), now, {}})); !written) return written.error();
  for (const FirstFile& file : files)
    if (auto written = staged->write(file.name, file.text); !written) return written.error();
  std::error_code failure;
  for (const char* part : {"logs", "checkpoints"}) fs::create_directory(staged->path() / part, failure);
  // What ranks print may contain anything: paths, tokens, data.
  if (!failure) fs::permissions(staged->path() / "logs", fs::perms::owner_all, failure);
  if (failure)
    return Error{Error::Kind::failed, fmt::format("cannot make {}: {}", place.string(), failure.message()), ""};
  return Staged{std::move(*staged), std::move(*lock)};
}

}  // namespace

Result<HeldRun> RunFolder::create(const fs::path& output, std::string_view name, Moment now,
                                  std::span<const FirstFile> files) {
  if (auto good = check_run_name(name); !good) return good.error();
  std::error_code failure;
  const fs::path stem = fs::absolute(output, failure) / fmt::format("{}-{}", name, folder_time(now));
  for (int attempt = 1;; ++attempt) {
    const fs::path place = attempt == 1 ? stem : fs::path(fmt::format("{}-{}", stem.string(), attempt));
    if (is_taken(place)) continue;
    auto staged = stage(place, name, now, files);
    auto made = staged ? staged->folder.commit() : Result<void>(staged.error());
    if (made) return HeldRun{RunFolder(place), std::move(staged->lock)};
    if (!is_taken(place)) return made.error();  // else another process was faster
  }
}

Result<RunFolder> RunFolder::open(const fs::path& path) {
  std::error_code failure;
  fs::path whole = fs::absolute(path, failure).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "folder/"
  if (!fs::is_directory(whole, failure))
    return Error{Error::Kind::bad_input, fmt::format("{} is not a folder", path.string()), "muster runs lists the runs"};
  return RunFolder(std::move(whole));
}

Result<HeldRun> RunFolder::hold(std::chrono::milliseconds patience) const {
  auto lock = RunLock::take(path_, patience);
  if (!lock) return lock.error();
  return HeldRun{*this, std::move(*lock)};
}

Result<void> RunFolder::remove_result() const {
  std::error_code failure;
  fs::remove(result(), failure);
  if (failure)
    return Error{Error::Kind::failed, fmt::format("cannot remove {}: {}", result().string(), failure.message()),
                 "check permissions of the folder"};
  return {};
}

Result<void> RunFolder::write_start(const RunStart& start) const {
  const auto before = read_record(path_);
  return write_file_atomically(path_ / record_file,
                               record_json({before ? before->name : name(), created(), start}));
}

Result<void> RunFolder::write_spec(std::string_view yaml) const { return write_file_atomically(spec(), yaml); }
Result<void> RunFolder::write_plan(std::string_view json) const { return write_file_atomically(plan(), json); }
Result<void> RunFolder::write_result(const RunResult& ending) const {
  return write_file_atomically(result(), result_json(ending));
}

Result<std::optional<RunResult>> RunFolder::read_result() const {
  std::error_code failure;
  if (!fs::exists(fs::symlink_status(result(), failure))) return std::optional<RunResult>{};
  const auto file = RegularFile::open(result());
  if (!file) return file.error();
  const auto text = file->beginning(file->size());
  if (!text) return text.error();
  auto ending = parse_result(*text, result().string());
  if (!ending) return ending.error();
  return std::optional(std::move(*ending));
}

Moment RunFolder::created() const {
  if (const auto record = read_record(path_)) return record->created;
  for (const fs::path& path : {spec(), metrics(), path_})
    if (const auto changed = last_change(path)) return *changed;
  return {};
}

std::optional<double> RunFolder::seconds_worked(std::optional<Moment> now) const {
  const auto record = read_record(path_);
  const auto end = now ? now : time_of_last_event(events());
  if (!record || !end) return std::nullopt;
  const Moment begin = record->start ? record->start->time : record->created;
  const double seconds = std::max(0.0, std::chrono::duration<double>(*end - begin).count());
  return record->start ? record->start->seconds_before + seconds : seconds;
}

bool RunFolder::looks_like_a_run() const {
  std::error_code failure;
  for (const fs::path& path : {path_ / record_file, spec(), metrics(), result()})
    if (fs::exists(path, failure)) return true;
  return false;
}

std::vector<CheckpointFolder> checkpoint_folders(const RunFolder& run) {
  constexpr std::string_view prefix = "step-";
  std::vector<CheckpointFolder> found;
  std::error_code failure;
  for (fs::directory_iterator entry(run.checkpoints(), failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    const std::string digits = name.starts_with(prefix) ? name.substr(prefix.size()) : "";
    const auto step = parse_number<std::int64_t>(digits);
    std::error_code ignored;
    if (step && digits.find_first_not_of("0123456789") == std::string::npos && entry->is_directory(ignored))
      found.push_back({*step, entry->path()});
  }
  std::ranges::sort(found, {}, &CheckpointFolder::step);
  return found;
}

}  // namespace muster::store

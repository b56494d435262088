#include "queue/archive.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "system/file_descriptor.hpp"
#include "system/files.hpp"
#include "system/replace_folder.hpp"
#include "base/text.hpp"
#include "schedule/job_json.hpp"
#include "store/appended_file.hpp"

namespace muster::queue {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using schedule::JobId;

// A line begins with the id, so that it is found without understanding the rest.
constexpr std::string_view before_id = R"({"id":")";

std::string_view id_of(std::string_view line) {
  if (!line.starts_with(before_id)) return {};
  line.remove_prefix(before_id.size());
  return line.substr(0, line.find('"'));
}

// If nothing was archived there is no file.
Result<std::string> archive_text(const StateFolder& folder) {
  if (::access(folder.archive().c_str(), F_OK) != 0 && errno == ENOENT) return std::string();
  return read_file(folder.archive());
}

// By number; ids that are not numbers come last.
bool goes_before(const ArchivedJob& a, const ArchivedJob& b) {
  const auto key = [](const ArchivedJob& job) {
    return std::pair(parse_number<std::uint64_t>(job.record.job.id.text).value_or(UINT64_MAX), job.record.job.id.text);
  };
  return key(a) < key(b);
}

}  // namespace

std::string to_line(const ArchivedJob& job) {
  ordered_json out = schedule::to_json(job.record);
  out["command"] = job.command;
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<ArchivedJob> read_archived(std::string_view line, std::string_view source) {
  const json object = json::parse(line, nullptr, false);
  auto record = schedule::read_record(object, source);
  if (!record) return record.error();
  ArchivedJob job{std::move(*record), {}};
  if (const auto command = object.find("command"); command != object.end() && command->is_array())
    for (const json& word : *command)
      if (word.is_string()) job.command.push_back(word.get<std::string>());
  return job;
}

void for_each_line(std::string_view text, std::size_t offset,
                   const std::function<void(std::string_view id, const ArchivePlace& place)>& visit) {
  for (std::size_t end; (end = text.find('\n', offset)) != std::string_view::npos; offset = end + 1)
    if (const auto id = id_of(text.substr(offset, end - offset)); !id.empty()) visit(id, {offset, end - offset});
}

std::unordered_set<schedule::JobIndex> jobs_to_archive(const schedule::Scheduler& scheduler, std::size_t kept) {
  std::vector<schedule::JobIndex> settled;
  for (std::size_t job = 0; job < scheduler.jobs().size(); ++job)
    if (const schedule::JobIndex index{static_cast<std::uint32_t>(job)}; is_settled(scheduler.jobs().at(index).state))
      settled.push_back(index);
  if (settled.size() <= kept) return {};
  std::ranges::sort(settled, {},
                    [&](schedule::JobIndex job) { return std::pair(scheduler.jobs().at(job).ended, job); });
  settled.resize(settled.size() - kept);
  return scheduler.can_forget({settled.begin(), settled.end()});
}

Result<void> add_to_archive(const StateFolder& folder, std::span<const ArchivedJob> jobs) {
  if (jobs.empty()) return {};
  auto file = store::AppendedFile::open_lines(folder.archive());
  if (!file) return file.error();
  std::string text;
  for (const ArchivedJob& job : jobs) text += to_line(job) + "\n";
  if (auto added = file->append(text); !added) return added;
  if (auto flushed = file->flush(); !flushed) return flushed;
  return flush_folder(folder.path());
}

Result<std::vector<ArchivedJob>> read_archive(const StateFolder& folder) {
  const auto text = archive_text(folder);
  if (!text) return text.error();
  std::vector<ArchivedJob> jobs;
  std::unordered_set<std::string_view> seen;
  for_each_line(*text, 0, [&](std::string_view id, const ArchivePlace& place) {
    if (!seen.insert(id).second) return;
    if (auto job = read_archived(std::string_view(*text).substr(place.offset, place.length), "archive.jsonl"))
      jobs.push_back(std::move(*job));
  });
  std::ranges::sort(jobs, goes_before);
  return jobs;
}

Result<void> remove_from_archive(const StateFolder& folder, const std::unordered_set<std::string>& ids) {
  const auto text = archive_text(folder);
  if (!text) return text.error();
  std::string kept;
  bool is_changed = false;
  std::unordered_set<std::string_view> seen;
  for_each_line(*text, 0, [&](std::string_view id, const ArchivePlace& place) {
    if (ids.contains(std::string(id)) || !seen.insert(id).second)
      is_changed = true;
    else
      kept.append(*text, place.offset, place.length + 1);
  });
  if (!is_changed) return {};
  if (auto written = write_file_atomically(folder.archive(), kept); !written) return written;
  return flush_folder(folder.path());
}

Result<ArchivedJob> read_archived_at(const StateFolder& folder, const ArchivePlace& place) {
  const FileDescriptor file(::open(folder.archive().c_str(), O_RDONLY | O_CLOEXEC));
  std::string line(place.length, '\0');
  if (!file || ::pread(file.number(), line.data(), line.size(), static_cast<off_t>(place.offset)) !=
                   static_cast<ssize_t>(line.size()))
    return Error{Error::Kind::failed, fmt::format("cannot read {}: {}", folder.archive().string(), system_reason()),
                 ""};
  return read_archived(line, folder.archive().string());
}

Result<std::vector<ArchivedJob>> ScannedArchive::find(const std::unordered_set<std::string>& ids) {
  const auto text = archive_text(folder_);
  if (!text) return text.error();
  std::vector<ArchivedJob> found;
  std::unordered_set<std::string_view> seen;
  for_each_line(*text, 0, [&](std::string_view id, const ArchivePlace& place) {
    if (!ids.contains(std::string(id)) || !seen.insert(id).second) return;
    if (auto job = read_archived(std::string_view(*text).substr(place.offset, place.length), "archive.jsonl"))
      found.push_back(std::move(*job));
  });
  return found;
}

Result<std::size_t> ScannedArchive::count() {
  const auto text = archive_text(folder_);
  if (!text) return text.error();
  std::unordered_set<std::string_view> seen;
  for_each_line(*text, 0, [&](std::string_view id, const ArchivePlace&) { seen.insert(id); });
  return seen.size();
}

}  // namespace muster::queue

#include "launch/log_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "system/file_descriptor.hpp"

namespace muster::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view no_files = "/dev/null";

Error cannot(std::string_view action, const fs::path& path, int reason) {
  const std::string what =
      fmt::format("cannot {} {}: {}", action, path.string(), std::generic_category().message(reason));
  switch (reason) {
    case ENOSPC:
    case EDQUOT:
      return {Error::Kind::failed, what,
              fmt::format("free space or inodes there (df {0}; df -i {0}), or put the logs elsewhere: --log-dir FOLDER",
                          path.parent_path().string())};
    case EIO:
    case EMFILE:
    case ENFILE:
      return {Error::Kind::failed, what, "put the logs elsewhere: --log-dir FOLDER"};
    default:
      return {Error::Kind::bad_input, what, "name a folder that you can write: --log-dir FOLDER"};
  }
}

Result<void> make_folders(const fs::path& path) {
  std::error_code failure;
  if (fs::exists(path, failure) && !fs::is_directory(path, failure))
    return Error{Error::Kind::bad_input, fmt::format("the log folder {} is a file", path.string()),
                 "name a folder: --log-dir FOLDER"};
  fs::create_directories(path, failure);
  if (failure) return cannot("make the log folder", path, failure.value());
  return {};
}

// <folder>/<begin><random>, for this user alone.
Result<fs::path> make_random_folder(const fs::path& folder, const std::string& begin) {
  std::string pattern = (folder / (begin + "XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr) return cannot("make the log folder", folder / begin, errno);
  return fs::path(pattern);
}

// Where Python looks for temporary files, in its order.
Result<fs::path> make_temporary_root() {
  const auto make_in = [](const fs::path& folder) { return make_random_folder(folder, "torchelastic_"); };
  for (const char* variable : {"TMPDIR", "TEMP", "TMP"})
    if (const char* folder = std::getenv(variable); folder != nullptr && *folder != '\0')
      if (auto made = make_in(fs::absolute(folder))) return made;
  if (auto made = make_in("/tmp")) return made;
  return make_in("/var/tmp");
}

Result<void> make_empty_file(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) return cannot("make", path, errno);
  return {};
}

// Without a folder every rank has the console, whatever was chosen: as torchrun does it.
RankLogs without_files() {
  const StreamTarget console{.file = std::nullopt, .console = true, .prefixed = false};
  return {console, console, std::nullopt};
}

RankLogs with_files(const LogOptions& options, const fs::path& folder, int local_rank) {
  const bool shown = options.shown_ranks.empty() || options.shown_ranks.contains(local_rank);
  const auto target = [&](bool redirected, bool teed, const char* name) {
    if (!redirected && !teed) return StreamTarget{.file = std::nullopt, .console = shown, .prefixed = false};
    return StreamTarget{.file = folder / name, .console = teed && shown, .prefixed = teed && shown};
  };
  const Streams redirected = options.redirects.of(local_rank);
  const Streams teed = options.tee.of(local_rank);
  return {target(redirected.output, teed.output, "stdout.log"), target(redirected.errors, teed.errors, "stderr.log"),
          folder / "error.json"};
}

}  // namespace

Result<LogFolder> LogFolder::create(LogOptions options, const std::string& run_id) {
  LogFolder logs;
  logs.options_ = std::move(options);
  const auto& asked = logs.options_.folder;
  if (asked && *asked == no_files) {
    if (logs.options_.output_filters.empty() && logs.options_.error_filters.empty()) return logs;
    return Error{Error::Kind::bad_input, "lines are to be filtered into files, and --log-dir /dev/null allows no files",
                 "name a folder: --log-dir FOLDER"};
  }
  if (run_id.find('/') != std::string::npos || run_id.find('\0') != std::string::npos)
    return Error{Error::Kind::bad_input, fmt::format("the run id \"{}\" cannot begin the name of a log folder", run_id),
                 "choose one without '/': --rdzv-id NAME"};

  fs::path root;
  if (asked && !asked->empty()) {
    root = fs::absolute(*asked);
    if (auto made = make_folders(root); !made) return made.error();
  } else {
    auto made = make_temporary_root();
    if (!made) return made.error();
    root = *made;
    logs.made_root_ = root;
  }
  auto folder = make_random_folder(root, run_id + "_");
  if (!folder) {
    logs.tidy();
    return folder.error();
  }
  logs.folder_ = std::move(*folder);
  return logs;
}

Result<AttemptLogs> LogFolder::begin_attempt(int attempt, int local_ranks) {
  AttemptLogs logs;
  if (!folder_) {
    logs.ranks.assign(static_cast<std::size_t>(local_ranks), without_files());
    return logs;
  }
  const fs::path folder = *folder_ / fmt::format("attempt_{}", attempt);
  std::error_code failure;
  fs::remove_all(folder, failure);  // what cannot be removed shows when the folder is made
  fs::create_directory(folder, failure);
  if (failure) return cannot("make the log folder", folder, failure.value());
  for (int rank = 0; rank < local_ranks; ++rank) {
    const fs::path of_rank = folder / fmt::format("{}", rank);
    if (!fs::create_directory(of_rank, failure))
      return cannot("make the log folder", of_rank, failure ? failure.value() : EEXIST);
    logs.ranks.push_back(with_files(options_, of_rank, rank));
  }
  if (!options_.output_filters.empty()) logs.filtered_output = folder / "filtered_stdout.log";
  if (!options_.error_filters.empty()) logs.filtered_errors = folder / "filtered_stderr.log";
  for (const auto& file : {logs.filtered_output, logs.filtered_errors})
    if (file)
      if (auto made = make_empty_file(*file); !made) return made.error();
  logs.folder = folder;
  return logs;
}

void LogFolder::tidy() {
  if (!made_root_) return;
  std::error_code failure;
  for (fs::recursive_directory_iterator entry(*made_root_, failure), end; !failure && entry != end;
       entry.increment(failure))
    if (!entry->is_directory(failure) || entry->is_symlink(failure)) return;
  if (!failure) fs::remove_all(*made_root_, failure);
}

}  // namespace muster::launch

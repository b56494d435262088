#include "queue/state_folder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "system/state_home.hpp"

namespace muster::queue {
namespace {

Error cannot(const char* what, const std::filesystem::path& path, const std::string& reason) {
  return {Error::Kind::failed, fmt::format("cannot {} {}: {}", what, path.string(), reason),
          "check the folder's permissions and free space, or set MUSTER_STATE to another folder"};
}

}  // namespace

Result<StateFolder> StateFolder::usual() {
  if (const auto home = state_home()) return StateFolder(*home / "queue");
  return Error{Error::Kind::bad_input, "neither MUSTER_STATE nor HOME is set: there is no place for the queue",
               "export MUSTER_STATE=/a/folder/of/yours"};
}

Result<void> StateFolder::prepare() const {
  std::error_code failure;
  std::filesystem::create_directories(path_, failure);
  if (failure) return cannot("make", path_, failure.message());
  std::filesystem::permissions(path_, std::filesystem::perms::owner_all, failure);
  if (failure) return cannot("close to others", path_, failure.message());
  for (const auto& folder : {inbox(), batches(), refused(), path_ / "jobs"}) {
    std::filesystem::create_directory(folder, failure);
    if (failure) return cannot("make", folder, failure.message());
  }
  return {};
}

std::filesystem::path StateFolder::attempt(const schedule::JobId& id, int attempt) const {
  return job(id) / fmt::format("attempt-{}.jsonl", attempt);
}

std::vector<std::filesystem::path> lines_files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure))
    if (entry->path().extension() == ".jsonl") files.push_back(entry->path());
  std::ranges::sort(files);
  return files;
}

}  // namespace muster::queue

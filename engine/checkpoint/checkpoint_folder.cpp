#include "checkpoint/checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <system_error>

#include "system/replace_folder.hpp"
#include "base/text.hpp"
#include "checkpoint/training_manifest.hpp"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view name_prefix = "step-";

std::vector<std::string> entries_of(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure))
    names.push_back(entry->path().filename().string());
  return names;
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(name_prefix)) return std::nullopt;
  const auto step = parse_number<std::int64_t>(name.substr(name_prefix.size()));
  return step && *step >= 0 && checkpoint_name(*step) == name ? step : std::nullopt;
}

bool is_leftover(std::string_view name) {
  return name.starts_with(".step-") && (name.find(".partial-") != std::string_view::npos || name.ends_with(".removed"));
}

void remove_where(const fs::path& folder, const std::function<bool(const std::string&)>& unwanted) {
  std::error_code ignored;
  for (const std::string& name : entries_of(folder))
    if (unwanted(name)) fs::remove_all(folder / name, ignored);
}

// A name that nothing has yet.
fs::path name_aside(const fs::path& checkpoint) {
  std::error_code ignored;
  for (int number = 1;; ++number) {
    fs::path aside = checkpoint;
    aside += number == 1 ? std::string(".set-aside") : fmt::format(".set-aside-{}", number);
    if (fs::symlink_status(aside, ignored).type() == fs::file_type::not_found) return aside;
  }
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{}", name_prefix, step); }

std::string staging_name(std::int64_t step, std::string_view attempt) {
  return fmt::format(".{}.partial-{}", checkpoint_name(step), attempt);
}

std::vector<FoundCheckpoint> find_checkpoints(const fs::path& folder) {
  std::vector<FoundCheckpoint> found;
  std::error_code ignored;
  for (const std::string& name : entries_of(folder))
    if (const auto step = step_of(name); step && fs::exists(folder / name / manifest_name, ignored))
      found.push_back({*step, folder / name});
  std::ranges::sort(found, std::greater(), &FoundCheckpoint::step);
  return found;
}

Result<std::vector<fs::path>> remove_oldest(const fs::path& folder, std::int64_t step, int keep) {
  std::vector<FoundCheckpoint> found = find_checkpoints(folder);
  std::erase_if(found, [step](const FoundCheckpoint& checkpoint) { return checkpoint.step > step; });
  std::vector<fs::path> removed;
  while (found.size() > static_cast<std::size_t>(std::max(1, keep))) {
    if (const auto gone = remove_folder(found.back().path); !gone) return gone.error();
    removed.push_back(found.back().path);
    found.pop_back();
  }
  return removed;
}

Result<std::vector<fs::path>> set_aside_newer(const fs::path& folder, std::int64_t step) {
  std::vector<fs::path> renamed;
  for (const FoundCheckpoint& checkpoint : find_checkpoints(folder)) {
    if (checkpoint.step <= step) break;
    const fs::path aside = name_aside(checkpoint.path);
    std::error_code failure;
    fs::rename(checkpoint.path, aside, failure);
    if (failure)
      return Error{Error::Kind::failed,
                   fmt::format("cannot rename {} to {}: {}", checkpoint.path.string(), aside.filename().string(),
                               failure.message()),
                   "check permissions of the folder above it"};
    renamed.push_back(aside);
  }
  return renamed;
}

void remove_leftovers(const fs::path& folder) { remove_where(folder, is_leftover); }

void remove_leftovers(const fs::path& folder, std::int64_t step, std::string_view attempt) {
  const std::string prefix = staging_name(step, ""), own = staging_name(step, attempt);
  remove_where(folder, [&](const std::string& name) { return name.starts_with(prefix) && name != own; });
}

}  // namespace muster::checkpoint

#include "sandbox/visible_files.hpp"

#include <algorithm>

namespace muster::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr const char* of_the_system[] = {"/usr",   "/bin",   "/sbin",   "/lib",
                                         "/lib32", "/lib64", "/libx32", "/etc/alternatives",
                                         "/etc/ld.so.cache"};
constexpr const char* devices[] = {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"};

bool lies_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

VisibleFiles::VisibleFiles(const std::vector<fs::path>& further) {
  for (const char* path : of_the_system) show(path, false);
  for (const fs::path& path : further) show(path.lexically_normal(), false);
  for (const char* path : devices) show(path, true);
  for (const auto& [path, is_device] : paths_)
    views_.push_back({path.c_str(), fs::is_directory(path), is_device});
  for (const auto& [path, target] : links_) link_views_.push_back({path.c_str(), target.c_str()});
}

// A link is shown as one, and so is what it leads to.
void VisibleFiles::show(const fs::path& path, bool is_device) {
  std::error_code missing;
  if (!fs::exists(path, missing) || shows(path)) return;
  const fs::path target = fs::canonical(path, missing);
  if (missing) return;
  if (target != path) links_.emplace_back(path.string(), target.string());
  if (!shows(target)) paths_.emplace_back(target.string(), is_device);
}

bool VisibleFiles::shows(const fs::path& path) const {
  return std::ranges::any_of(paths_, [&](const auto& shown) { return lies_below(path, shown.first); });
}

}  // namespace muster::sandbox

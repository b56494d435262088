// The files of the host that a confined program may read.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "sandbox/confinement.hpp"

namespace muster::sandbox {

// Owns the texts that its views point to.
class VisibleFiles {
 public:
  // The system's programs and libraries, a few devices, and these folders, which exist.
  explicit VisibleFiles(const std::vector<std::filesystem::path>& further);
  VisibleFiles(const VisibleFiles&) = delete;
  VisibleFiles& operator=(const VisibleFiles&) = delete;

  const std::vector<VisiblePath>& paths() const { return views_; }
  const std::vector<VisibleLink>& links() const { return link_views_; }

 private:
  void show(const std::filesystem::path& path, bool is_device);
  bool shows(const std::filesystem::path& path) const;

  std::vector<std::pair<std::string, bool>> paths_;  // and whether it is a device
  std::vector<std::pair<std::string, std::string>> links_;
  std::vector<VisiblePath> views_;
  std::vector<VisibleLink> link_views_;
};

}  // namespace muster::sandbox

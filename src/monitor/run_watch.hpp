// How far a run has got, from the files in its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "monitor/file_tail.hpp"
#include "monitor/sample.hpp"

namespace muster::monitor {

class RunWatch {
 public:
  explicit RunWatch(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  // Its newest numbers, read only if its files have changed.
  const Progress& refresh();
  std::filesystem::path log() const;

 private:
  void find_total();

  std::filesystem::path folder_;
  FileTail metrics_;
  FileTail events_;
  Progress progress_;
  double step_seconds_ = 0;  // smoothed
};

}  // namespace muster::monitor

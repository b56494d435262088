#include "cli/progress_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace muster::cli {

ProgressLine::ProgressLine(std::string what) : what_(std::move(what)), terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (terminal_ && shown_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::show(ByteCount done, ByteCount total) {
  if (total.value <= 0) return;
  const std::int64_t percent = std::min<std::int64_t>(
      100, static_cast<std::int64_t>(100.0 * static_cast<double>(done.value) / static_cast<double>(total.value)));
  const std::int64_t step = terminal_ ? 1 : 25;
  if (shown_ && percent / step == *shown_ / step) return;
  shown_ = percent;
  fmt::print(stderr, "{}muster: {}: {} of {}, {} %{}", terminal_ ? "\r\033[K" : "", what_, to_string(done),
             to_string(total), percent, terminal_ ? "" : "\n");
  std::fflush(stderr);
}

}  // namespace muster::cli

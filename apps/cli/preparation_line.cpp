#include "cli/preparation_line.hpp"

#include <fmt/format.h>

#include <chrono>

namespace muster::cli {

data::OnPreparation show_preparation(StatusLine& line) {
  return [&line, since = std::chrono::steady_clock::now()](const data::PreparationProgress& progress) {
    const auto elapsed =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - since);
    const std::string_view what = progress.phase == data::PreparationProgress::Phase::waiting
                                      ? "waiting for another process that prepares the same data"
                                  : progress.phase == data::PreparationProgress::Phase::digesting ? "reading the data"
                                                                                                  : "tokenising";
    const double share = progress.bytes_total == 0 ? 0
                                                   : 100.0 * static_cast<double>(progress.bytes_done) /
                                                         static_cast<double>(progress.bytes_total);
    line.show(fmt::format("{} … {:.0f} %", what, share), elapsed);
  };
}

}  // namespace muster::cli

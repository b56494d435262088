// metrics.csv as it is written: a header, then one row for each optimizer step, each step once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "store/appended_file.hpp"
#include "store/metrics_table.hpp"

namespace muster::store {

// One number of a row. Naming a column that the file lacks is a bug, and throws.
struct Measured {
  std::string_view column;
  double value = 0;
};

class MetricsFile {
 public:
  // columns: all except step, which comes first. Refused if the file
  // exists.
  static Result<MetricsFile> create(const std::filesystem::path& path, const std::vector<std::string>& columns);
  // The file of a resumed run. A torn last line is cut off; a damaged file is an error with the line's number.
  // Columns of the list that the file lacks are added, empty.
  static Result<MetricsFile> open(const std::filesystem::path& path, const std::vector<std::string>& columns = {});

  // One row by one write(), so that a killed process leaves at most one torn line, the last. Numbers are written so
  // that they read back bit for bit. A step that is not above the last one is refused.
  Result<void> append(std::int64_t step, std::span<const Measured> measured);
  // Sets cells of the last row, which is that of step: what was measured after it, as by an evaluation. A resumed
  // run measures the last step a second time, so an existing value is replaced.
  Result<void> fill(std::int64_t step, std::span<const Measured> measured);
  // For a run resumed from a checkpoint of this step: later rows are removed, all at once or not at all.
  // Afterwards last_step() says whether the rows reach up to step; if not, the checkpoint is newer than its run's rows.
  Result<void> go_back_to(std::int64_t step);
  void wait_when_full(const FullDisk& full) { file_.wait_when_full(full_ = full); }
  // Rows are on the disk when this returns.
  Result<void> flush() const { return file_.flush(); }

  const std::vector<std::string>& columns() const { return columns_; }  // without step
  std::optional<std::int64_t> last_step() const { return last_step_; }
  // A cell of the last row; empty if nothing was measured, or there is no row.
  Cell last_cell(std::string_view column) const;

 private:
  MetricsFile(AppendedFile file, std::vector<std::string> columns)
      : file_(std::move(file)), columns_(std::move(columns)) {}
  std::string row_text() const;
  void take(std::span<const Measured> measured);
  void remember_last(const MetricsTable& table);
  std::size_t place_of(std::string_view column) const;
  Result<void> rewrite(std::int64_t last_step);

  AppendedFile file_;
  FullDisk full_ = {};
  std::vector<std::string> columns_;
  std::optional<std::int64_t> last_step_;
  std::vector<Cell> last_cells_;      // of the last row, as many as columns_
  std::uint64_t last_row_begin_ = 0;  // where the last row begins
};

// One line of a file of metrics, without its newline.
std::string metrics_line(std::int64_t step, std::span<const Cell> cells);

}  // namespace muster::store

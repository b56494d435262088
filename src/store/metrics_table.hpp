// metrics.csv as it is read: columns of numbers by name, one row for each optimizer step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace muster::store {

using Cell = std::optional<double>;  // absent: not measured at that step

struct MetricsColumn {
  std::string name;
  std::vector<Cell> cells;
};

struct MetricsTable {
  std::vector<std::int64_t> steps;     // increasing
  std::vector<MetricsColumn> columns;  // all except step, in the order of the file; as many cells as steps

  const MetricsColumn* find(std::string_view name) const;
  // The newest cell of a column that is not empty.
  Cell last(std::string_view name) const;
};

// Unknown columns are kept like any other. A last line without its newline was being written, and is left
// out. Anything else that is not a row of increasing steps is an error with the line's number.
Result<MetricsTable> parse_metrics(std::string_view text, std::string_view source);
Result<MetricsTable> read_metrics(const std::filesystem::path& path);
// The same with only the last row, whatever the length of the file; no row if it has none.
Result<MetricsTable> read_last_metrics(const std::filesystem::path& path);

}  // namespace muster::store

#include "store/metrics_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "system/files.hpp"
#include "base/text.hpp"

namespace muster::store {
namespace {

std::string header_line(const std::vector<std::string>& columns) {
  std::string line = "step";
  for (const std::string& name : columns) line += "," + name;
  return line + "\n";
}

void check_columns(const std::vector<std::string>& columns) {
  for (auto name = columns.begin(); name != columns.end(); ++name)
    if (name->empty() || *name == "step" || name->find_first_of(",\"\r\n") != std::string::npos ||
        std::find(columns.begin(), name, *name) != name)
      throw std::logic_error(fmt::format("\"{}\" cannot be a column of metrics", *name));
}

std::string rows_up_to(const MetricsTable& table, std::int64_t step) {
  std::string text;
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < table.steps.size() && table.steps[row] <= step; ++row) {
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = table.columns[i].cells[row];
    text += metrics_line(table.steps[row], cells) + "\n";
  }
  return text;
}

}  // namespace

std::string metrics_line(std::int64_t step, std::span<const Cell> cells) {
  std::string line = fmt::format("{}", step);
  for (const Cell& cell : cells) line += cell ? fmt::format(",{}", *cell) : ",";
  return line;
}

Result<MetricsFile> MetricsFile::create(const std::filesystem::path& path, const std::vector<std::string>& columns) {
  check_columns(columns);
  auto file = AppendedFile::create(path);
  if (!file) return file.error();
  if (auto written = file->append(header_line(columns)); !written) return written.error();
  return MetricsFile(std::move(*file), columns);
}

Result<MetricsFile> MetricsFile::open(const std::filesystem::path& path, const std::vector<std::string>& wanted) {
  check_columns(wanted);
  auto table = read_metrics(path);
  if (!table) return table.error();
  for (const std::string& name : wanted)
    if (table->find(name) == nullptr) table->columns.push_back({name, std::vector<Cell>(table->steps.size())});
  std::vector<std::string> columns;
  for (const MetricsColumn& column : table->columns) columns.push_back(column.name);
  // As this class writes it, even if it was edited by hand; that also drops a torn last line.
  const std::string whole = header_line(columns) + rows_up_to(*table, std::numeric_limits<std::int64_t>::max());
  const auto text = read_file(path);
  if (!text) return text.error();
  if (*text != whole)
    if (auto written = write_file_atomically(path, whole); !written) return written.error();
  auto file = AppendedFile::open_lines(path);
  if (!file) return file.error();
  MetricsFile metrics(std::move(*file), std::move(columns));
  metrics.remember_last(*table);
  return metrics;
}

void MetricsFile::remember_last(const MetricsTable& table) {
  last_step_.reset();
  last_cells_.clear();
  last_row_begin_ = file_.size();
  if (table.steps.empty()) return;
  last_step_ = table.steps.back();
  for (const MetricsColumn& column : table.columns) last_cells_.push_back(column.cells.back());
  last_row_begin_ = file_.size() - row_text().size();
}

std::string MetricsFile::row_text() const { return metrics_line(*last_step_, last_cells_) + "\n"; }

std::size_t MetricsFile::place_of(std::string_view column) const {
  const auto found = std::ranges::find(columns_, column);
  if (found == columns_.end()) throw std::logic_error(fmt::format("metrics have no column \"{}\"", column));
  return static_cast<std::size_t>(found - columns_.begin());
}

Cell MetricsFile::last_cell(std::string_view column) const {
  const std::size_t place = place_of(column);
  return last_step_ ? last_cells_[place] : std::nullopt;
}

void MetricsFile::take(std::span<const Measured> measured) {
  for (const Measured& one : measured) last_cells_[place_of(one.column)] = one.value;
}

Result<void> MetricsFile::append(std::int64_t step, std::span<const Measured> measured) {
  if (last_step_ && step <= *last_step_)
    return Error{
        Error::Kind::failed,
        fmt::format("step {} was reported when {} has step {} already", step, file_.path().string(), *last_step_), ""};
  const auto before_step = last_step_;
  const auto before_cells = last_cells_;
  last_step_ = step;
  last_cells_.assign(columns_.size(), std::nullopt);
  take(measured);
  const std::uint64_t begin = file_.size();
  if (auto written = file_.append(row_text()); !written) {
    last_step_ = before_step;
    last_cells_ = before_cells;
    return written;
  }
  last_row_begin_ = begin;
  return {};
}

Result<void> MetricsFile::fill(std::int64_t step, std::span<const Measured> measured) {
  if (step != last_step_)
    return Error{Error::Kind::failed,
                 fmt::format("step {} was measured again when {} ends at step {}", step, file_.path().string(),
                             last_step_.value_or(0)),
                 ""};
  const auto before = last_cells_;
  take(measured);
  // Only a row that does not get shorter can be replaced by one write.
  const bool shorter = row_text().size() < file_.size() - last_row_begin_;
  auto written = shorter ? rewrite(step) : file_.replace_from(last_row_begin_, row_text());
  if (!written) last_cells_ = before;
  return written;
}

// The rows before last_step as the file has them, then that of last_step: from this object if it is its own
// last row.
Result<void> MetricsFile::rewrite(std::int64_t last_step) {
  const std::filesystem::path path = file_.path();
  auto table = read_metrics(path);
  if (!table) return table.error();
  const bool own = last_step == last_step_;
  const std::string rows =
      own ? rows_up_to(*table, last_step - 1) + row_text() : rows_up_to(*table, last_step);
  if (auto written = write_file_atomically(path, header_line(columns_) + rows); !written) return written;
  auto again = open(path);
  if (!again) return again.error();
  again->wait_when_full(full_);
  *this = std::move(*again);
  return {};
}

Result<void> MetricsFile::go_back_to(std::int64_t step) {
  if (!last_step_ || *last_step_ <= step) return {};
  return rewrite(step);
}

}  // namespace muster::store

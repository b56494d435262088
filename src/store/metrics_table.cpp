#include "store/metrics_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "system/regular_file.hpp"
#include "base/text.hpp"

namespace muster::store {
namespace {

constexpr std::uint64_t longest_row = 65536;

Error damaged(std::string_view source, std::size_t line, std::string what) {
  return {Error::Kind::bad_input, fmt::format("{}:{}: {}", source, line, what), ""};
}

std::string shortened(std::string_view text) {
  constexpr std::size_t enough = 40;
  std::string shown;
  for (const char letter : text.substr(0, enough))
    shown += static_cast<unsigned char>(letter) < 0x20 || static_cast<unsigned char>(letter) > 0x7E ? '?' : letter;
  return text.size() > enough ? shown + "..." : shown;
}

class TableReader {
 public:
  explicit TableReader(std::string_view source) : source_(source) {}

  Result<void> read_header(std::string_view line) {
    names_ = split(line, ',');
    const auto step = std::ranges::find(names_, "step");
    if (step == names_.end()) return damaged(source_, 1, fmt::format("no column \"step\" in \"{}\"", shortened(line)));
    step_at_ = static_cast<std::size_t>(step - names_.begin());
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (i != step_at_) table_.columns.push_back({names_[i], {}});
    return {};
  }

  Result<void> read_row(std::string_view line, std::size_t number) {
    const std::vector<std::string> cells = split(line, ',');
    if (cells.size() != names_.size())
      return damaged(source_, number, fmt::format("{} cells where {} columns are", cells.size(), names_.size()));
    const auto step = parse_number<std::int64_t>(cells[step_at_]);
    if (!step) return damaged(source_, number, fmt::format("\"{}\" is not a step", shortened(cells[step_at_])));
    if (!table_.steps.empty() && *step <= table_.steps.back())
      return damaged(source_, number, fmt::format("step {} after step {}", *step, table_.steps.back()));
    table_.steps.push_back(*step);
    std::size_t column = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i == step_at_) continue;
      const auto value = parse_number<double>(cells[i]);
      if (!value && !cells[i].empty())
        return damaged(source_, number, fmt::format("{} is \"{}\", not a number", names_[i], shortened(cells[i])));
      table_.columns[column++].cells.push_back(value);
    }
    return {};
  }

  MetricsTable take() { return std::move(table_); }

 private:
  std::string_view source_;
  std::vector<std::string> names_;
  std::size_t step_at_ = 0;
  MetricsTable table_;
};

std::string_view without_return(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

const MetricsColumn* MetricsTable::find(std::string_view name) const {
  const auto found = std::ranges::find(columns, name, &MetricsColumn::name);
  return found == columns.end() ? nullptr : &*found;
}

Cell MetricsTable::last(std::string_view name) const {
  const MetricsColumn* column = find(name);
  if (column == nullptr) return std::nullopt;
  for (const Cell& cell : std::views::reverse(column->cells))
    if (cell) return cell;
  return std::nullopt;
}

Result<MetricsTable> parse_metrics(std::string_view text, std::string_view source) {
  TableReader reader(source);
  std::size_t number = 0;
  while (true) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = without_return(text.substr(0, end));
    text.remove_prefix(end + 1);
    ++number;
    if (auto read = number == 1 ? reader.read_header(line) : reader.read_row(line, number); !read) return read.error();
  }
  if (number == 0) return damaged(source, 1, "no header");
  return reader.take();
}

Result<MetricsTable> read_metrics(const std::filesystem::path& path) {
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  const auto text = file->beginning(file->size());
  if (!text) return text.error();
  return parse_metrics(*text, path.string());
}

Result<MetricsTable> read_last_metrics(const std::filesystem::path& path) {
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  if (file->size() <= 2 * longest_row) return read_metrics(path);
  auto text = file->beginning(longest_row);
  if (!text) return text.error();
  text->resize(std::min(text->size(), text->find('\n') + 1));
  std::string tail(longest_row, '\0');
  if (auto read = file->read_at(file->size() - tail.size(), std::as_writable_bytes(std::span(tail))); !read)
    return read.error();
  const auto end = tail.rfind('\n');
  if (end == std::string::npos || end == 0) return damaged(path.string(), 1, "no rows of lines");
  const auto begin = tail.rfind('\n', end - 1);
  if (begin == std::string::npos) return damaged(path.string(), 1, "no rows of lines");
  return parse_metrics(*text + tail.substr(begin + 1, end - begin), path.string());
}

}  // namespace muster::store

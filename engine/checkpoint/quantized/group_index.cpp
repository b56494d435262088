#include "checkpoint/quantized/group_index.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "spec/model/quantized/quantized_parts.hpp"

namespace muster::checkpoint {

Result<std::vector<std::int64_t>> groups_of_columns(const SafetensorsSource& files,
                                                    const spec::QuantizedMatrix& matrix, std::string_view word,
                                                    std::int64_t group_size, std::int64_t first_column,
                                                    std::int64_t columns, bool may_be_unset) {
  std::vector<std::int64_t> groups(static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < columns; ++i) groups[static_cast<std::size_t>(i)] = (first_column + i) / group_size;
  if (files.find(matrix.part(word)) == nullptr) return groups;
  std::vector<std::int32_t> stored(groups.size());
  if (auto read = files.read_bytes(matrix.part(word), static_cast<std::uint64_t>(first_column) * sizeof(std::int32_t),
                                   std::as_writable_bytes(std::span(stored)));
      !read)
    return read.error();
  if (may_be_unset && std::ranges::all_of(stored, [](std::int32_t group) { return group == -1; })) return groups;
  const std::int64_t count = spec::divided_up(matrix.columns, group_size);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (stored[i] < 0 || stored[i] >= count)
      return wrong_part(matrix, word,
                        fmt::format("puts input {} into group {} of {}", first_column + static_cast<std::int64_t>(i),
                                    stored[i], count));
    groups[i] = stored[i];
  }
  return groups;
}

}  // namespace muster::checkpoint

#include "checkpoint/slice_bounds.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace muster::checkpoint {
namespace {

Error refusal(const TensorEntry& entry, std::string what) {
  return {Error::Kind::bad_input,
          fmt::format("{} [{}]: {}", entry.name, fmt::join(entry.dimensions.span(), ", "), what), ""};
}

// first and count lie within size; an absent count is the rest.
bool settle(std::int64_t first, std::optional<std::int64_t> wanted, std::int64_t size, std::int64_t& count) {
  if (first < 0 || first > size) return false;
  count = wanted.value_or(size - first);
  return count >= 0 && count <= size - first;
}

}  // namespace

Result<SliceBounds> check_slice(const TensorEntry& entry, const TensorSlice& slice, spec::ElementType as,
                                std::size_t out_bytes) {
  SliceBounds bounds;
  const auto& [sizes, rank] = entry.dimensions;
  bounds.tensor_rows = rank == 1 || rank == 2 ? sizes[0] : 1;
  bounds.tensor_columns = rank == 1 ? 1 : rank == 2 ? sizes[1] : entry.dimensions.elements();
  bounds.first_row = slice.first_row;
  bounds.first_column = slice.first_column;
  if (!settle(slice.first_row, slice.rows, bounds.tensor_rows, bounds.rows))
    return refusal(entry, fmt::format("{} rows from {} on are not within its {}", slice.rows.value_or(0),
                                      slice.first_row, bounds.tensor_rows));
  if (!settle(slice.first_column, slice.columns, bounds.tensor_columns, bounds.columns))
    return refusal(entry, fmt::format("{} columns from {} on are not within its {}", slice.columns.value_or(0),
                                      slice.first_column, bounds.tensor_columns));
  if (rank > 2 && bounds.elements() != entry.dimensions.elements())
    return refusal(entry, fmt::format("a part of a tensor with {} dimensions", rank));
  const std::int64_t wanted = bounds.elements() * spec::bytes_per_element(as);
  if (static_cast<std::uint64_t>(wanted) != out_bytes)
    return refusal(entry, fmt::format("{} elements of {} take {} bytes, and there is room for {}", bounds.elements(),
                                      spec::name(as), wanted, out_bytes));
  return bounds;
}

}  // namespace muster::checkpoint

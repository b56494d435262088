#include "checkpoint/stored_columns.hpp"

#include <vector>

#include "checkpoint/number_conversion.hpp"

namespace muster::checkpoint {

void put_columns(const StoredColumns& columns, const SliceBounds& slice, spec::ElementType as,
                 std::span<std::byte> out) {
  const auto element = static_cast<std::size_t>(spec::bytes_per_element(as));
  std::vector<float> line(static_cast<std::size_t>(columns.count));
  for (std::int64_t row = 0; row < slice.rows; ++row) {
    for (std::int64_t i = 0; i < columns.count; ++i)
      line[static_cast<std::size_t>(i)] = columns.numbers[i * columns.step + row];
    const auto place = static_cast<std::size_t>(row * slice.columns + columns.first) * element;
    convert_numbers(spec::ElementType::float32, std::as_bytes(std::span(line)), as,
                    out.subspan(place, line.size() * element));
  }
}

}  // namespace muster::checkpoint

// Reading all that a checkpoint offers.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/tensor_source.hpp"

namespace muster {

// Codes of a part of the rows, some of which may not be there.
inline void read_some_codes(const checkpoint::TensorSource& source, const std::string& name, std::mt19937_64& random) {
  const auto form = source.packed(name);
  if (!form) return;
  const std::int64_t first = static_cast<std::int64_t>(random() % 40) - 1, rows = static_cast<std::int64_t>(random() % 40);
  std::vector<std::byte> codes(static_cast<std::size_t>(rows * form->code_bytes_per_row()));
  std::vector<float> scales(static_cast<std::size_t>(rows * form->scales_per_row()));
  static_cast<void>(source.read_packed(name, first, rows, codes, scales));
}

// Every tensor whole, and one part of it; what is asked for must be given or refused. How many could be read.
inline std::size_t read_everything(const checkpoint::TensorSource& source, std::mt19937_64& random) {
  using spec::ElementType;
  constexpr std::array types{ElementType::float32, ElementType::bfloat16, ElementType::float16, ElementType::float64,
                             ElementType::uint8};
  const auto below = [&](std::size_t limit) { return static_cast<std::int64_t>(random() % limit); };
  std::size_t read = 0;
  for (const checkpoint::TensorEntry& entry : source.tensors()) {
    const ElementType as = types[static_cast<std::size_t>(below(types.size()))];
    const auto bytes = static_cast<std::size_t>(spec::bytes_per_element(as));
    std::vector<std::byte> whole(static_cast<std::size_t>(entry.dimensions.elements()) * bytes);
    if (source.read(entry.name, {}, as, whole)) ++read;
    const checkpoint::TensorSlice part{below(9) - 1, below(9) - 1, below(300) - 1, below(300) - 1};
    std::vector<std::byte> some(static_cast<std::size_t>(std::max<std::int64_t>(0, *part.rows * *part.columns)) * bytes);
    static_cast<void>(source.read(entry.name, part, as, some));
    read_some_codes(source, entry.name, random);
  }
  return read;
}

}  // namespace muster

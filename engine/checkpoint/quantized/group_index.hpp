// Which group of inputs each input belongs to, where they are not in the inputs' order.
#pragma once

#include <vector>

#include "checkpoint/quantized/matrix_decoder.hpp"

namespace muster::checkpoint {

// For each of these columns a number below groups. word: the part that says it, where the files have it; otherwise (and,
// where it may be unset, if it says -1 for all) group_size consecutive columns are a group. Refused: a number beyond the
// groups.
Result<std::vector<std::int64_t>> groups_of_columns(const SafetensorsSource& files,
                                                    const spec::QuantizedMatrix& matrix, std::string_view word,
                                                    std::int64_t group_size, std::int64_t first_column,
                                                    std::int64_t columns, bool may_be_unset);

}  // namespace muster::checkpoint

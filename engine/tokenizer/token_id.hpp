// The number of a token.
#pragma once

#include <cstdint>

namespace muster::tokenizer {

using TokenId = std::int32_t;

// No vocabulary is nearly as large; a file that says more is broken.
constexpr TokenId largest_token_id = (1 << 22) - 1;

}  // namespace muster::tokenizer

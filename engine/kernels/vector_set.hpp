// Which vector instructions the kernels use. All three give the same bits: every output is the same chain of
// operations.
#pragma once

#include <string_view>

namespace muster::kernels {

enum class VectorSet { portable, avx2, avx512 };

// Whether this CPU and its kernel have what the set needs.
bool is_available(VectorSet set);
// The fastest that is available.
VectorSet best_vector_set();
// "avx2"
std::string_view name(VectorSet set);

}  // namespace muster::kernels

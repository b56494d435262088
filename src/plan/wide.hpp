// Integers that hold the product of two byte counts.
#pragma once

namespace muster::plan {

__extension__ using Wide = __int128;

}  // namespace muster::plan

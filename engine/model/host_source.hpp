// Tensors of a checkpoint that stay in host memory once they have been read.
#pragma once

#include <memory>

#include "checkpoint/tensor_source.hpp"

namespace muster::model {

// A tensor is read whole, as numbers of the type it is first asked for in, and kept; for other types it is read again.
// source must outlive what is returned.
std::unique_ptr<checkpoint::TensorSource> make_host_source(const checkpoint::TensorSource& source);

}  // namespace muster::model

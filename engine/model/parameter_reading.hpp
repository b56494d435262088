// Parameters out of a checkpoint, straight into the form their device wants, by several threads, a slice of a tensor at
// a time.
#pragma once

#include <functional>
#include <span>

#include "base/result.hpp"
#include "checkpoint/tensor_source.hpp"
#include "model/parameter.hpp"
#include "tensor/device_ops.hpp"

namespace muster::model {

struct LoadProgress {
  std::int64_t done = 0;  // bytes of parameters
  std::int64_t total = 0;
};

// Fills parameters that have memory. threads: readers. progress: called now and then, by one thread at a time.
Result<void> read_parameters(std::span<const Parameter> parameters, const checkpoint::TensorSource& source,
                             tensor::DeviceOps& ops, int threads,
                             const std::function<void(const LoadProgress&)>& progress);

}  // namespace muster::model

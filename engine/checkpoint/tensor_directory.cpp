#include "checkpoint/tensor_directory.hpp"

#include <fmt/format.h>

namespace muster::checkpoint {

Error no_such_tensor(std::string_view name) {
  return {Error::Kind::bad_input, fmt::format("the checkpoint has no tensor {}", name), ""};
}

Result<void> TensorSource::read_packed(std::string_view name, std::int64_t, std::int64_t, std::span<std::byte>,
                                       std::span<float>) const {
  return Error{Error::Kind::bad_input, fmt::format("{} has no codes", name), ""};
}

}  // namespace muster::checkpoint

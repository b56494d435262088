#include "checkpoint/tensor_directory.hpp"

#include <fmt/format.h>

namespace muster::checkpoint {

Error no_such_tensor(std::string_view name) {
  return {Error::Kind::bad_input, fmt::format("the checkpoint has no tensor {}", name), ""};
}

}  // namespace muster::checkpoint

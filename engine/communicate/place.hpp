// Where a rank stands among the others, as torchrun's environment tells it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace muster::communicate {

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string store_address;  // of the key-value store; needed where there are several ranks
  std::uint16_t store_port = 0;
  bool operator==(const Place&) const = default;
};

// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. variable: looks one up.
Result<Place> read_place(const std::function<std::optional<std::string>(const char*)>& variable);
// From this process's own environment.
Result<Place> read_place();

}  // namespace muster::communicate

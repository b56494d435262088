// Where a rank stands among the others, as torchrun's environment says.
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
  // Some of the job's ranks that join apart from the others: rank and size are those among them.
  std::string group = "";  // its name in the store; empty: all ranks
  int first_rank = 0;      // the job's number of its rank 0
  int stride = 1;          // from one rank of the group to the next

  // What messages call a rank of the group: its number in the job.
  int job_rank(int of_group) const { return first_rank + of_group * stride; }
  bool operator==(const Place&) const = default;
};

// Where a rank stands among the ranks first, first + stride, … of its job, size of them, which it is one of.
Place place_in_group(const Place& place, int first, int size, int stride = 1);

// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. variable: looks one up.
Result<Place> read_place(const std::function<std::optional<std::string>(const char*)>& variable);
// From this process's own environment.
Result<Place> read_place();

}  // namespace muster::communicate

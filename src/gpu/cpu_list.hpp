// Sets of CPUs as Linux writes them: "0-15,32-47".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::gpu {

// Ascending CPU numbers, or nothing when the text is not such a list.
std::optional<std::vector<int>> parse_cpu_list(std::string_view text);

// cpus: ascending, without repetition.
std::string to_cpu_list(const std::vector<int>& cpus);

}  // namespace muster::gpu

// A job's position in the table of all jobs, in the order in which they were submitted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::schedule {

enum class JobIndex : std::uint32_t {};
constexpr std::size_t position(JobIndex job) { return static_cast<std::size_t>(job); }

}  // namespace muster::schedule

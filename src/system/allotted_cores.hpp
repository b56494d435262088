// Which CPUs this process may run on, and how many cores' worth of time it really has.
#pragma once

#include <filesystem>
#include <vector>

namespace muster {

// Ascending.
std::vector<int> allowed_cpus();

// The smaller of the CPUs it may run on and its control groups' quota, rounded up; at least 1. root is a parameter for
// tests: where /proc and /sys are.
int allotted_cores(const std::filesystem::path& root = "/");

}  // namespace muster

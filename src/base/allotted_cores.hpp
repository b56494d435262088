// How many cores this process may really use.
#pragma once

#include <filesystem>

namespace muster {

// The smaller of the CPUs it may run on and its control groups' quota, rounded up; at least 1. root is a parameter for
// tests: where /proc and /sys are.
int allotted_cores(const std::filesystem::path& root = "/");

}  // namespace muster
